#include "runtime/remote/joined_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "runtime/control/membership.h"
#include "runtime/flow/bridge.h"
#include "runtime/remote/bulk.h"
#include "runtime/remote/member_bridge.h"
#include "runtime/remote/run_plan.h"
#include "runtime/remote/ways.h"
#include "runtime/text.h"
#include "runtime/world/cores.h"

namespace troupe {
namespace {

/// Of the processes on one host: "0-3", "0-1 4".
std::string ranks_on(const Member& member, const std::string& identity) {
  std::string text;
  int first = -1, last = -1;
  const auto close = [&] {
    if (first >= 0)
      text += fmt::format("{}{}{}", text.empty() ? "" : " ", first,
                          last > first ? fmt::format("-{}", last) : "");
  };
  for (const PeerInfo& peer : member.peers()) {
    if (peer.identity() != identity) continue;
    if (first < 0 || peer.rank != last + 1) {
      close();
      first = peer.rank;
    }
    last = peer.rank;
  }
  close();
  return text;
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
  for (const PeerInfo& peer : member.peers()) {
    if (std::ranges::find(identities, peer.identity()) != identities.end()) continue;
    identities.push_back(peer.identity());
    places.push_back(fmt::format("{}: {}", peer.host(), ranks_on(member, peer.identity())));
  }
  const Ways ways(member, options_.transport);
  const bool network = !ways.need_no_network();
  const bool memory = std::ranges::any_of(member.peers(), [&](const PeerInfo& peer) {
    return ways.sharing_memory_with(peer.rank).size() > 1;
  });
  return fmt::format("{} processes on {} ({}), {}, started by {}", world_.size,
                     counted(std::ssize(places), "host"), listed(places, 4),
                     memory && network ? "shared memory within a host, Gloo between"
                     : memory          ? "shared memory"
                                       : "Gloo",
                     world_.launcher);
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
