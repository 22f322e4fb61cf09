#pragma once
// What the sockets of one process share.

#include <memory>

namespace troupe {

/// ZeroMQ and the keys that it lets in, behind the coordinators and members of a process: each has
/// one of its own unless it is given one to share.
class MessagingContext;

std::shared_ptr<MessagingContext> new_messaging_context();

}  // namespace troupe
