#include "apps/train/world_run.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/error_wording.h"
#include "apps/options/option_changes.h"
#include "apps/train/training.h"
#include "runtime/control/member.h"
#include "runtime/program.h"
#include "runtime/text.h"
#include "runtime/world/error_file.h"

namespace troupe {
namespace {

using nlohmann::json;

constexpr const char* agreement_key = "run/agreement";
constexpr const char* report_key = "run/report";  ///< claimed by the process that prints the error

/// The flag of the launcher for so many processes, in brackets; empty if there is no single
/// flag.
std::string launcher_flag(const World& world, std::int64_t processes) {
  if (world.launcher == "slurm") return fmt::format(" (--ntasks {})", processes);
  if (world.launcher == "openmpi") return fmt::format(" (mpirun -n {})", processes);
  if (world.launcher == "pmix" || processes % world.nodes != 0) return {};
  return fmt::format(" (--nproc-per-node {})", processes / world.nodes);
}

std::string options_key(std::uint32_t rank) { return fmt::format("run/options/{}", rank); }

std::string to_text(const Agreement& agreement) {
  return json{{"partition", agreement.partition},
              {"output", agreement.output.string()},
              {"checkpoint", agreement.checkpoint.string()},
              {"weights", agreement.weights.string()},
              {"evaluates_first", agreement.evaluates_first},
              {"nothing_to_do", agreement.nothing_to_do},
              {"processor", agreement.processor}}
      .dump();
}

Agreement from_json(const json& text) {
  return {.partition = text.at("partition").get<std::vector<std::size_t>>(),
          .output = text.at("output").get<std::string>(),
          .checkpoint = text.at("checkpoint").get<std::string>(),
          .weights = text.at("weights").get<std::string>(),
          .evaluates_first = text.at("evaluates_first").get<bool>(),
          .nothing_to_do = text.at("nothing_to_do").get<bool>(),
          .processor = text.at("processor").get<std::string>()};
}

std::string to_text(const Error& error) {
  return json{{"code", static_cast<int>(error.code())},
              {"error", error.message()},
              {"remedy", error.remedy()}}
      .dump();
}

}  // namespace

void check_fits(const World& world, const Options& options) {
  const WorkLimits limits = work_limits(options);
  if (world.size <= limits.total_stages()) return;
  throw Error(
      ErrorCode::bad_options,
      fmt::format("{} has started {} processes, but {}", world.launcher, world.size,
                  work_words(limits)),
      fmt::format("start {}{}{}", counted(limits.total_stages(), "process"),
                  launcher_flag(world, limits.total_stages()), or_give(world.size, limits)));
}

int end_silently(const Error& error, const Definitions& own) {
  const Error worded = in_words_of_the_command(error, own);
  report_to_launcher(Error(ErrorCode::peer_lost, worded.message(), worded.remedy()), false);
  return exit_code_of(error);
}

WorldRun::WorldRun(const World& world, const Environment& environment, const Options& options,
                   std::stop_token stop)
    : own_(options.own),
      timeout_(options.transport.timeout),
      world_(JoinedWorld::join(world, environment, options.transport, std::move(stop))) {}

Agreement WorldRun::agree(const std::string& options, const std::function<Agreement()>& decide) {
  Store& store = world_->store();
  if (!leads()) {
    const Status sent = store.put(options_key(process()), options);
    if (!sent) throw sent.error();
    Agreement agreement = receive_agreement();
    works_alone_ = true;
    return agreement;
  }
  try {
    check_same_options(options);
    Agreement agreement = decide();
    if (const auto first = claim_report(); !first) throw first.error();
    if (const Status sent = store.put(agreement_key, to_text(agreement)); !sent) throw sent.error();
    return agreement;
  } catch (const Error& error) {
    publish(error);
    throw;
  } catch (const std::exception& error) {
    const Error failure(ErrorCode::internal, error.what(),
                        "report this with the command and options");
    publish(failure);
    throw failure;
  }
}

void WorldRun::check_same_options(const std::string& options) {
  Member& member = world_->member();
  for (const ProcessInfo& peer : member.processes()) {
    const auto rank = static_cast<std::uint32_t>(peer.rank);
    if (rank == process()) continue;
    const auto theirs = member.store().get(options_key(rank), timeout_);
    if (theirs.value() == options) continue;
    const OptionChange change = first_option_difference(options, theirs.value());
    throw Error(
        ErrorCode::bad_options,
        fmt::format("{} is {} on rank 0 ({}), but {} on rank {} ({})", change.key, change.before,
                    member.processes().front().host(), change.now, peer.rank, peer.host()),
        "start all processes with the same options file and the same -r");
  }
}

void WorldRun::connect(const Graph& graph, RunOptions& run) {
  world_->connect(graph, run);
  works_alone_ = false;
}

Agreement WorldRun::receive_agreement() {
  // Rank 0 measures and reads before it decides, which takes longer than an answer.
  const auto longest = timeout_ * 4;
  const auto received = world_->store().get(agreement_key, longest);
  const json text = json::parse(received.value());
  if (text.contains("error"))
    throw Error(static_cast<ErrorCode>(text.at("code").get<int>()),
                text.at("error").get<std::string>(), text.at("remedy").get<std::string>());
  return from_json(text);
}

// So that the others do not wait for an agreement that will not come.
void WorldRun::publish(const Error& error) {
  (void)static_cast<bool>(claim_report());
  (void)static_cast<bool>(world_->store().put(agreement_key, to_text(error)));
}

Result<std::string> WorldRun::claim_report() { return world_->store().claim(report_key, timeout_); }

int WorldRun::end_with(const Error& error) {
  if (works_alone_ && error.code() != ErrorCode::peer_lost) return report(error);
  const auto reported_by = claim_report();
  const bool reports = !reported_by ? !world_->member().is_given_up() : reported_by.value().empty();
  if (reports) return report(error);
  world_->abandon();
  return end_silently(error, own_);
}

int WorldRun::report(const Error& error) {
  const int code = print_error(in_words_of_the_command(error, own_));
  (void)static_cast<bool>(world_->store().put(report_key, fmt::format("rank {}", process())));
  world_->abandon();
  return code;
}

}  // namespace troupe
