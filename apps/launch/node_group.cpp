#include "apps/launch/node_group.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <random>

#include "runtime/error.h"

namespace troupe {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

/// One host: nobody to meet.
class OneNode : public NodeGroup {
 public:
  explicit OneNode(const LaunchOptions& options) {
    std::random_device random;
    place_.size = options.processes;
    place_.host = host_name();
    // The name alone may serve many jobs, as torchrun's default "none" does.
    place_.run_id = fmt::format("{}-{:08x}{:08x}", options.run_id, random(), random());
    place_.master_address = options.master_address.empty() ? "127.0.0.1" : options.master_address;
    place_.master_port = options.master_port != 0 ? options.master_port : free_port();
  }

  const Place& place() const override { return place_; }
  void report_lost(int, const std::string&) override {}
  void tell(const Failure&) override {}
  int descriptor() const override { return -1; }
  std::vector<Failure> hear() override { return {}; }
  void done() override {}
  bool all_done() const override { return true; }

 private:
  Place place_;
};

}  // namespace

std::uint16_t free_port() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  if (!socket || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw Error(ErrorCode::io, "launch: no free port", "name one: --master-port 29500");
  return ntohs(address.sin_port);
}

std::unique_ptr<NodeGroup> NodeGroup::meet(const LaunchOptions& options) {
  return std::make_unique<OneNode>(options);
}

}  // namespace troupe
