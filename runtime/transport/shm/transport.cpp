#include "runtime/transport/shm/transport.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>

#include "runtime/transport/shm/communicator.h"

namespace troupe::transport {
namespace {

Result<std::unique_ptr<Communicator>> connect(const TransportGroup& group) {
  Fd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell)
    return Error(ErrorCode::io, fmt::format("shm: eventfd: {}", std::strerror(errno)),
                 "set `transport` to gloo");
  auto connections = connect_peers(group, bell.get());
  if (!connections) return connections.error();
  return std::unique_ptr<Communicator>(
      std::make_unique<ShmCommunicator>(group, std::move(connections.value()), std::move(bell)));
}

}  // namespace

constexpr Transport shm{
    .name = "shm",
    .title = "shared memory",
    .joins = [](const ProcessPlace& one,
                const ProcessPlace& other) { return one.identity == other.identity; },
    .serves = [](Device device) { return device == Device::cpu(); },
    .carries_messages = true,
    .connect = connect,
};

}  // namespace troupe::transport
