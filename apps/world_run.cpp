#include "apps/world_run.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "runtime/file/digest.h"
#include "runtime/remote/member_bridge.h"
#include "runtime/world/cores.h"

namespace troupe {
namespace {

using nlohmann::json;

constexpr const char* agreement_key = "run/agreement";

std::string options_key(int rank) { return fmt::format("run/options/{}", rank); }

std::string to_text(const Agreement& agreement) {
  return json{{"cut", agreement.cut},
              {"output", agreement.output.string()},
              {"checkpoint", agreement.checkpoint.string()},
              {"evaluates_first", agreement.evaluates_first},
              {"nothing_to_do", agreement.nothing_to_do}}
      .dump();
}

Agreement from_json(const json& text) {
  return {.cut = text.at("cut").get<std::vector<std::int64_t>>(),
          .output = text.at("output").get<std::string>(),
          .checkpoint = text.at("checkpoint").get<std::string>(),
          .evaluates_first = text.at("evaluates_first").get<bool>(),
          .nothing_to_do = text.at("nothing_to_do").get<bool>()};
}

}  // namespace

BulkOptions bulk_options(const Options& options) {
  const std::string& name = options.parallel.transport;
  return {.transport = name == "shm"    ? TransportKind::shm
                       : name == "gloo" ? TransportKind::gloo
                                        : TransportKind::automatic,
          .interface = options.parallel.interface,
          .timeout = options.parallel.timeout};
}

void check_fits(const World& world, const Options& options) {
  const std::int64_t work = options.parallel.pipeline * options.parallel.data;
  if (world.size <= work) return;
  throw Error(
      ErrorCode::bad_options,
      fmt::format("{} has started {} processes, but parallel.pipeline {} x parallel.data {} is "
                  "work for {}",
                  world.launcher, world.size, options.parallel.pipeline, options.parallel.data,
                  work),
      fmt::format("start {} processes, or give -r parallel.data={}", work,
                  (world.size + options.parallel.pipeline - 1) / options.parallel.pipeline));
}

std::unique_ptr<WorldRun> WorldRun::enter(const World& world, const Environment& environment,
                                          const Options& options) {
  const auto& parallel = options.parallel;
  std::unique_ptr<WorldRun> run(new WorldRun(world, bulk_options(options)));
  bind_to(core_share(world, environment).cpus);
  auto entered = Membership::enter(world, environment,
                                   {.interface = parallel.interface, .timeout = parallel.timeout});
  run->membership_ = std::move(entered.value());
  return run;
}

WorldRun::~WorldRun() = default;

Agreement WorldRun::agree(const std::string& options, const std::function<Agreement()>& decide) {
  Store& store = membership_->member().store();
  if (!leads()) {
    if (const Status told = store.put(options_key(world_.rank), text_digest(options)); !told)
      throw told.error();
    return hear();
  }
  try {
    check_same_options(options);
    Agreement agreement = decide();
    if (const Status told = store.put(agreement_key, to_text(agreement)); !told) throw told.error();
    return agreement;
  } catch (const Error& error) {
    const json failure = {{"code", static_cast<int>(error.code())}, {"error", error.message()}};
    (void)static_cast<bool>(store.put(agreement_key, failure.dump()));
    throw;
  }
}

void WorldRun::check_same_options(const std::string& options) {
  Member& member = membership_->member();
  for (const PeerInfo& peer : member.peers()) {
    if (peer.rank == world_.rank) continue;
    const auto digest = member.store().get(options_key(peer.rank), bulk_options_.timeout);
    if (digest.value() == text_digest(options)) continue;
    throw Error(ErrorCode::bad_options,
                fmt::format("rank {} on {} has other options than rank 0", peer.rank, peer.host()),
                "start all processes with the same options file, on a file system they share");
  }
}

Agreement WorldRun::hear() {
  // Rank 0 measures and reads before it decides: longer than processes take to answer.
  const auto patience = bulk_options_.timeout * 4;
  const auto told = membership_->member().store().get(agreement_key, patience);
  const json text = json::parse(told.value());
  if (text.contains("error"))
    throw ToldByLead(static_cast<ErrorCode>(text.at("code").get<int>()),
                     text.at("error").get<std::string>());
  return from_json(text);
}

void WorldRun::connect(const Graph& graph, RunOptions& run) {
  // Who has failed since is missed here at once, not when the time is up.
  if (const Status all = membership_->member().barrier("run/connect"); !all) throw all.error();
  auto connected = Bulk::connect(membership_->member(), bulk_options_);
  bulk_ = std::move(connected.value());
  run.process = process();
  run.processes = processes();
  run.bridge = make_member_bridge(membership_->member(), bulk_, graph);
  run.run_id = membership_->member().generation();
}

std::string WorldRun::heading() const {
  std::set<std::string> hosts;
  for (const PeerInfo& peer : membership_->member().peers()) hosts.insert(peer.identity());
  return fmt::format("{} processes on {} host{}, started by {}", world_.size, hosts.size(),
                     hosts.size() == 1 ? "" : "s", world_.launcher);
}

void WorldRun::leave() {
  // Gloo loses what is under way when one side goes: all part together.
  if (bulk_) (void)static_cast<bool>(membership_->member().barrier("run/end"));
  bulk_.reset();
  // What cannot be said any more concerns nobody: the run is over.
  (void)static_cast<bool>(membership_->leave());
}

}  // namespace troupe
