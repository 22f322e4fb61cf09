#pragma once
#include <memory>
#include <vector>

#include "runtime/transport/communicator.h"

namespace troupe::test {

/// Ranks that are threads of the test: a send hands over the tensor's handle within its call.
std::vector<std::unique_ptr<Communicator>> make_local_communicators(int size);

}  // namespace troupe::test
