#pragma once
// The ZeroMQ context of a process.

#include <memory>

namespace troupe {

/// A ZeroMQ context and the keys that it accepts. Each coordinator and member has its own, unless
/// it is given one to share.
class MessagingContext;

std::shared_ptr<MessagingContext> new_messaging_context();

}  // namespace troupe
