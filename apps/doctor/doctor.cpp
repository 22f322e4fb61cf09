// troupe doctor: problems that would stop or slow a run here, one line per finding with its remedy.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/doctor/checks.h"
#include "apps/doctor/network.h"
#include "apps/options/load_options.h"
#include "apps/options/options_table.h"
#include "apps/train/training.h"
#include "apps/verbs.h"
#include "runtime/print.h"
#include "runtime/text.h"

namespace troupe {
namespace {

struct DoctorArguments {
  std::filesystem::path options;
  std::vector<std::string> overrides;
  std::string cluster;
  bool json = false, network = false;
};

/// Without a file, -r overrides the defaults, for samples that need no files.
std::optional<Options> options_of(const DoctorArguments& arguments, const Definitions& own) {
  if (!arguments.options.empty()) return load_options(arguments.options, arguments.overrides, own);
  if (arguments.overrides.empty()) return std::nullopt;
  return parse_options("data: {name: synthetic}", "default options", arguments.overrides, own);
}

Demands demands_of(const Options& options) {
  Demands demands;
  demands.work = work_limits(options);
  demands.transport = options.transport.transport;
  demands.actor_threads = options.run.threads;
  demands.intra_op_threads = options.intra_op_threads;
  demands.workers = options.pipeline.data.workers;
  demands.interface = options.transport.interface;
  const Stream& stream = options.pipeline.stream;
  demands.products = stream.products;
  demands.tf32 = (stream.conv_tf32 && stream.products == DType::f32) || stream.matmul_tf32;
  demands.device = options.device;
  demands.cuda_graphs = options.pipeline.cuda_graphs;
  demands.resident = options.pipeline.data.resident;
  demands.nondeterministic = !stream.deterministic;
  return demands;
}

const char* name_of(Finding::Severity severity) {
  return severity == Finding::Severity::error ? "error" : "warning";
}

void print_json(const Machine& machine, const Findings& findings, bool fails) {
  nlohmann::ordered_json document;
  document["host"] = machine.host;
  document["ok"] = !fails;
  if (machine.world) document["rank"] = machine.world->rank;
  document["findings"] = nlohmann::ordered_json::array();
  for (const Finding& finding : findings)
    document["findings"].push_back({{"severity", name_of(finding.severity)},
                                    {"check", finding.check},
                                    {"message", finding.message},
                                    {"remedy", finding.remedy}});
  // A variable may hold any bytes.
  print_out("{}\n", document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

/// In a world of several nodes every line says whose it is, and all come in one write, so that
/// those of two nodes do not mix.
void print_lines(const Machine& machine, const std::vector<Observation>& seen,
                 const Findings& findings) {
  std::string prefix;
  if (machine.several_nodes()) {
    const auto node = static_cast<std::size_t>(std::max(0, machine.world->node));
    prefix =
        (node < machine.world->hosts.size() ? machine.world->hosts[node] : machine.host) + ": ";
  }
  const auto found = [&](const std::string& check) {
    return std::ranges::find(findings, check, &Finding::check) != findings.end();
  };
  std::string text;
  for (const Observation& observation : seen)
    text += fmt::format("{}{:<12}  {}{}\n", prefix, observation.check, observation.seen,
                        found(observation.check) ? "" : observation.if_well);
  for (const Finding& finding : findings)
    text += fmt::format("{0}{1}: {2}: {3}\n{0}  try: {4}\n", prefix, name_of(finding.severity),
                        finding.check, finding.message, finding.remedy);
  const auto errors = std::count_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.severity == Finding::Severity::error;
  });
  text += findings.empty() ? fmt::format("{}no problems found\n", prefix)
                           : fmt::format("{}{}, {}\n", prefix, counted(errors, "error"),
                                         counted(std::ssize(findings) - errors, "warning"));
  std::fflush(stdout);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

int doctor(const DoctorArguments& arguments, const Definitions& own) {
  const std::optional<Options> options = options_of(arguments, own);
  if (arguments.network) return measure_network(options ? *options : Options(own), arguments.json);
  const bool has_file = !arguments.options.empty();
  Demands demands = options ? demands_of(*options) : Demands();
  demands.known = has_file;
  const Machine machine = observe(demands.device != DeviceChoice::cpu);
  std::vector<Observation> seen = observations(machine, demands);
  Findings findings = check_all(machine, demands);
  if (!arguments.cluster.empty())
    std::ranges::move(check_cluster(machine, find_profile(arguments.cluster)),
                      std::back_inserter(findings));
  if (has_file) {
    DataCheck data = check_data(*options);
    seen.push_back(std::move(data.observation));
    std::ranges::move(data.findings, std::back_inserter(findings));
  }
  std::ranges::stable_sort(findings, std::ranges::greater(), &Finding::severity);
  const bool fails = !findings.empty() && findings.front().severity == Finding::Severity::error;
  // One process of a node reports for all, but each reports findings of its own.
  const bool speaks = !machine.world || machine.world->local_rank == 0 ||
                      std::ranges::any_of(findings, &Finding::of_process);
  if (arguments.json && speaks)
    print_json(machine, findings, fails);
  else if (speaks)
    print_lines(machine, seen, findings);
  return fails ? exit_failed : exit_done;
}

}  // namespace

void add_doctor_verb(CLI::App& app, ChosenVerb& chosen) {
  auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* verb =
      app.add_subcommand("doctor", "Check this node for problems that would stop or slow a run");
  verb->add_option("FILE", arguments->options, "options file of the run");
  verb->add_option("-r,--override", arguments->overrides,
                   "overrides the file, or the defaults (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  CLI::Option* cluster =
      verb->add_option("--cluster", arguments->cluster, "check against the profile of a cluster")
          ->type_name("NAME");
  verb->add_flag("--network", arguments->network,
                 "instead of the checks, measure the time of messages and\n"
                 "tensors between processes: srun troupe doctor --network")
      ->excludes(cluster);
  verb->add_flag("--json", arguments->json, "findings as JSON");
  verb->callback([arguments, &chosen] {
    chosen = [arguments](const Invocation& call) { return doctor(*arguments, call.own); };
  });
}

}  // namespace troupe
