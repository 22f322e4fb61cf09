#include "runtime/remote/joined_world.h"

#include <fmt/format.h>

#include <set>

#include "runtime/control/membership.h"
#include "runtime/flow/bridge.h"
#include "runtime/remote/bulk.h"
#include "runtime/remote/member_bridge.h"
#include "runtime/remote/run_plan.h"
#include "runtime/world/cores.h"

namespace troupe {

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
  std::set<std::string> hosts;
  for (const PeerInfo& peer : membership_->member().peers()) hosts.insert(peer.identity());
  return fmt::format("{} processes on {} host{}, started by {}", world_.size, hosts.size(),
                     hosts.size() == 1 ? "" : "s", world_.launcher);
}

void JoinedWorld::connect(const Graph& graph, RunOptions& options) {
  if (connects_)
    throw Error(ErrorCode::usage, "JoinedWorld::connect was called a second time",
                "one world is for one run: put what belongs together into one graph, and start the "
                "program once for each run");
  connects_ = true;
  const Placement placement(graph, process(), processes());
  const std::string plan = run_plan(graph, placement, member(), options_.transport);
  if (const Status same = check_same_plan(member(), plan, options_.timeout); !same)
    throw same.error();
  // Who has failed since is missed here at once, not when the time is up.
  if (const Status all = member().barrier("run/connect"); !all) throw all.error();
  auto connected = Bulk::connect(member(), options_);
  bulk_ = std::move(connected.value());
  options.process = process();
  options.processes = processes();
  options.bridge = bridge_ = make_member_bridge(member(), *bulk_, graph);
  options.run_id = member().generation();
}

Store& JoinedWorld::store() { return member().store(); }

Member& JoinedWorld::member() { return membership_->member(); }

void JoinedWorld::leave() {
  // Gloo loses what is under way when one side goes: all part together.
  if (bulk_) (void)static_cast<bool>(member().barrier("run/end"));
  disconnect();
  // What cannot be said any more concerns nobody: the run is over.
  (void)static_cast<bool>(membership_->leave());
}

void JoinedWorld::abandon() {
  disconnect();
  membership_->abandon();
}

void JoinedWorld::disconnect() {
  if (bridge_) bridge_->close();  // also where the program still has it
  bridge_.reset();
  bulk_.reset();
}

}  // namespace troupe
