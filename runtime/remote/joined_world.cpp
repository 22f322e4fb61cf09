#include "runtime/remote/joined_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "runtime/control/membership.h"
#include "runtime/flow/bridge.h"
#include "runtime/remote/data_plane.h"
#include "runtime/remote/member_bridge.h"
#include "runtime/remote/run_description.h"
#include "runtime/text.h"
#include "runtime/world/cores.h"

namespace troupe {
namespace {

/// The devices of the edges between processes; the CPU first, whose routes carry messages too.
std::vector<Device> devices_between(const Graph& graph, const Placement& placement) {
  std::vector<Device> devices{Device::cpu()};
  for (const Graph::Edge& edge : graph.edges())
    if (placement.of(edge.from) != placement.of(edge.to) &&
        std::ranges::find(devices, edge.options.device) == devices.end())
      devices.push_back(edge.options.device);
  return devices;
}

}  // namespace

JoinedWorld::JoinedWorld(World world, TransportOptions options,
                         std::unique_ptr<Membership> membership)
    : world_(std::move(world)), options_(std::move(options)), membership_(std::move(membership)) {}

JoinedWorld::~JoinedWorld() { disconnect(); }

std::unique_ptr<JoinedWorld> JoinedWorld::join(const TransportOptions& options,
                                               std::stop_token stop) {
  const Environment environment = Environment::of_process();
  const auto world = world_from_environment(environment);
  return world ? join(*world, environment, options, std::move(stop)) : nullptr;
}

std::unique_ptr<JoinedWorld> JoinedWorld::join(const World& world, const Environment& environment,
                                               const TransportOptions& options,
                                               std::stop_token stop) {
  CoreShare share = core_share(world, environment);
  // What counts the cores of this process counts those that it may start threads on.
  share.cpus.resize(static_cast<std::size_t>(share.threads));
  bind_to(share.cpus);
  auto entered = Membership::enter(
      world, environment,
      {.interface = options.interface, .timeout = options.timeout, .stop = std::move(stop)});
  return std::unique_ptr<JoinedWorld>(new JoinedWorld(world, options, std::move(entered.value())));
}

std::string JoinedWorld::heading() const {
  const Member& member = membership_->member();
  std::vector<std::string> identities, places;
  for (const ProcessInfo& first : member.processes()) {
    if (std::ranges::find(identities, first.identity()) != identities.end()) continue;
    identities.push_back(first.identity());
    std::vector<int> ranks;
    for (const ProcessInfo& process : member.processes())
      if (process.identity() == first.identity()) ranks.push_back(process.rank);
    places.push_back(fmt::format("{}: {}", first.host(), ranges(ranks)));
  }
  return fmt::format("{} processes on {} ({}), {}, started by {}", world_.size,
                     counted(std::ssize(places), "host"), listed(places, 4),
                     topology_of(member, options_).summary(), world_.launcher);
}

void JoinedWorld::connect(const Graph& graph, RunOptions& options) {
  if (connects_)
    throw Error(ErrorCode::usage, "JoinedWorld::connect was called a second time",
                "a world is for one run: combine the graphs into one, or start the program once "
                "for each run");
  connects_ = true;
  const Placement placement(graph, process(), processes());
  const std::string description =
      run_description(graph, placement, topology_of(member(), options_));
  if (const Status same = check_same_description(member(), description, options_.timeout); !same)
    throw same.error();
  // A process that has failed since is noticed here at once, not after the timeout.
  if (const Status all = member().barrier("run/connect"); !all) throw all.error();
  auto connected = DataPlane::connect(member(), options_, devices_between(graph, placement));
  data_plane_ = std::move(connected.value());
  options.process = process();
  options.processes = processes();
  options.bridge = bridge_ = make_member_bridge(member(), *data_plane_, graph);
  options.deferral = &data_plane_->deferral();
}

Store& JoinedWorld::store() { return member().store(); }

Member& JoinedWorld::member() { return membership_->member(); }

void JoinedWorld::leave() {
  // Gloo loses tensors under way when one side closes its connections: all close them together.
  if (data_plane_) (void)static_cast<bool>(member().barrier("run/end"));
  disconnect();
  // A failure to close does not matter: the run is over.
  (void)static_cast<bool>(membership_->leave());
}

void JoinedWorld::abandon() {
  disconnect();
  membership_->abandon();
}

void JoinedWorld::disconnect() {
  if (bridge_) bridge_->close();  // also where the program still has it
  bridge_.reset();
  data_plane_.reset();
}

}  // namespace troupe
