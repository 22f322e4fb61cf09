#include "apps/launch/node_group.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <random>

#include "apps/launch/several_nodes.h"
#include "runtime/control/coordinator.h"
#include "runtime/control/interface.h"
#include "runtime/error.h"
#include "runtime/world/world.h"

namespace troupe {
namespace {

/// A job of one host.
class OneNode : public NodeGroup {
 public:
  explicit OneNode(const LaunchOptions& options) {
    place_.size = options.processes;
    place_.host = place_.leading_host = host_name();
    place_.run_id = unique_run_id(options.run_id);
    place_.master_address = options.master_address.empty() ? "127.0.0.1" : options.master_address;
    place_.master_port = options.master_port != 0 ? options.master_port : free_port();
    const JobKey key = JobKey::generate();
    place_.job_key = key.text();
    auto started = Coordinator::start({.key = key,
                                       .run = run_id_of(place_.run_id, 0),
                                       .size = options.processes,
                                       .timeout_of_members = true});
    coordinator_ = std::move(started.value());
    place_.coordinator = coordinator_->endpoint();
  }

  const Place& place() const override { return place_; }
  void report_lost(int rank, const std::string& reason) override {
    coordinator_->report_lost(rank, reason);
  }
  void announce(const Failure&) override {}
  void announce_ending() override {}
  bool all_are_ending() const override { return true; }
  int descriptor() const override { return -1; }
  std::vector<Failure> take_failures() override { return {}; }
  void announce_done() override {}
  bool all_done() const override { return true; }

 private:
  Place place_;
  std::unique_ptr<Coordinator> coordinator_;
};

}  // namespace

std::string unique_run_id(const std::string& run_id) {
  std::random_device random;
  return fmt::format("{}-{:08x}{:08x}", file_name_of(run_id).substr(0, 64), random(), random());
}

std::uint16_t free_port() {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  if (!socket || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw Error(ErrorCode::io, "launch: there is no free port", "give one: --master-port 29500");
  return ntohs(address.sin_port);
}

std::unique_ptr<NodeGroup> NodeGroup::rendezvous(const LaunchOptions& options,
                                                 std::stop_token stop) {
  if (options.endpoint) return std::make_unique<SeveralNodes>(options, std::move(stop));
  return std::make_unique<OneNode>(options);
}

}  // namespace troupe
