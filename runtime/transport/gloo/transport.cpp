#include "runtime/transport/gloo/transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "runtime/transport/gloo/communicator.h"

namespace troupe::transport {
namespace {

Result<std::unique_ptr<Communicator>> connect(const TransportGroup& group) {
  try {
    const auto start = std::chrono::steady_clock::now();
    auto mesh = std::make_unique<Mesh>(group);
    const auto elapsed =
        std::chrono::floor<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
    TransportGroup rest = group;  // one timeout for all
    rest.name += "/side_channel";
    rest.timeout = std::max(group.timeout - elapsed, std::chrono::milliseconds(1));
    auto side_channel = std::make_unique<SideChannel>(rest, mesh->secret());
    return std::unique_ptr<Communicator>(
        std::make_unique<GlooCommunicator>(group, std::move(mesh), std::move(side_channel)));
  } catch (const Error& error) {
    return error;
  } catch (const std::system_error& error) {
    return Error(ErrorCode::io,
                 fmt::format("gloo: rank {} of {}: {}", group.rank, group.size, error.what()),
                 "raise the limits of threads (ulimit -u) and of open files (ulimit -n)");
  }
}

}  // namespace

constexpr Transport gloo{
    .name = "gloo",
    .title = "Gloo",
    .joins = [](const ProcessPlace&, const ProcessPlace&) { return true; },
    .serves = [](Device device) { return device == Device::cpu(); },
    .carries_messages = false,
    .connect = connect,
};

}  // namespace troupe::transport
