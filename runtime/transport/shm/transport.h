#pragma once
#include "runtime/transport/transport.h"

namespace troupe::transport {

/// Shared memory: processes of one machine and network namespace.
extern const Transport shm;

}  // namespace troupe::transport
