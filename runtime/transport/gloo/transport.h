#pragma once
#include "runtime/transport/transport.h"

namespace troupe::transport {

/// Gloo over TCP: any processes that reach each other's addresses. Tensors are not encrypted, and
/// only the first message of a connection is authenticated: for private networks. If the process
/// does not handle SIGPIPE, connecting makes it ignore it, since Gloo's writes raise it.
extern const Transport gloo;

}  // namespace troupe::transport
