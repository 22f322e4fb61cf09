// troupe launch: one run in several processes, on one or several hosts.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <string>

#include "apps/command.h"
#include "apps/launch/launcher.h"
#include "apps/verbs.h"
#include "runtime/print.h"

namespace troupe {
namespace {

/// A flag in torchrun's two spellings, of which the help shows the one with dashes, and its
/// variable (PET_NNODES for --nnodes), which the flag overrides. `type` is what the help shows as
/// its value.
template <class Value>
void add(CLI::App& verb, const std::string& name, Value& value, const std::string& type,
         const std::string& help) {
  const std::string spelt = name.substr(name.find("--") + 2);
  std::string underscored = spelt;
  std::replace(underscored.begin(), underscored.end(), '-', '_');
  std::string variable = "PET_" + underscored;
  std::transform(variable.begin(), variable.end(), variable.begin(), ::toupper);
  verb.add_option(name, value, help)->envname(variable)->type_name(type);
  if (underscored != spelt) verb.add_option("--" + underscored, value)->group("");
}

/// A flag that torchrun has and that changes nothing here.
template <class Value>
void add_ignored(CLI::App& verb, const std::string& name, Value& value) {
  add(verb, name, value, "VALUE", "");
  verb.get_option(name)->group("Accepted for torchrun, ignored");
}

void add_world_flags(CLI::App& verb, LaunchFlags& flags) {
  verb.add_flag("--standalone", flags.standalone, "run on this host only");
  add(verb, "--nnodes", flags.nnodes, "NUMBER", "number of nodes (1)");
  add(verb, "--nproc-per-node", flags.nproc_per_node, "NUMBER|cpu|gpu|auto",
      "processes on this node (1)");
  add(verb, "--node-rank", flags.node_rank, "NUMBER", "rank of this node, from 0 (assigned)");
  add(verb, "--rdzv-endpoint", flags.rdzv_endpoint, "HOST[:PORT]",
      "rendezvous of the hosts, the same on all hosts (port 29400)");
  add(verb, "--rdzv-id", flags.rdzv_id, "NAME",
      "name of the job, the same on all hosts (\"none\")");
  add_ignored(verb, "--rdzv-backend", flags.rdzv_backend);
  add(verb, "--rdzv-conf", flags.rdzv_conf, "join_timeout=SECONDS",
      "time to wait for the other hosts (300)");
  add(verb, "--master-addr", flags.master_addr, "HOST",
      "MASTER_ADDR of the processes; also the default of --rdzv-endpoint");
  add(verb, "--master-port", flags.master_port, "PORT",
      "MASTER_PORT of the processes (a free port)");
  add(verb, "--local-addr", flags.local_addr, "ADDRESS",
      "address, name or interface of this host (detected)");
}

void add_process_flags(CLI::App& verb, LaunchFlags& flags) {
  add(verb, "--max-restarts", flags.max_restarts, "NUMBER",
      "passed on as TORCHELASTIC_MAX_RESTARTS; restarts nothing (0)");
  add(verb, "--grace-period", flags.grace_period, "SECONDS",
      "time between SIGTERM and SIGKILL (30)");
  add(verb, "--log-dir", flags.log_dir, "FOLDER",
      "folder for the output of the processes (a temporary folder)");
  add(verb, "-r,--redirects", flags.redirects, "OUTPUTS",
      "write to files: 1 stdout, 2 stderr, 3 both; by local rank: 0:1,1:2");
  add(verb, "-t,--tee", flags.tee, "OUTPUTS",
      "the same values; also prints the outputs, line by line");
  add(verb, "--local-ranks-filter", flags.local_ranks_filter, "RANKS",
      "local ranks whose output is printed: 0,1 (all)");
  add(verb, "--role", flags.role, "NAME",
      "ROLE_NAME of the processes, in the prefix of --tee (\"default\")");
  add(verb, "--log-line-prefix-template", flags.log_line_prefix_template, "TEMPLATE",
      "prefix of the lines of --tee ([${role_name}${local_rank}]:)");
  add_ignored(verb, "--monitor-interval", flags.monitor_interval);
  add_ignored(verb, "--start-method", flags.start_method);
  verb.add_flag("--no-python", flags.no_python, "COMMAND is always a program, never a verb");
  verb.add_flag("--no_python", flags.no_python)->group("");
}

}  // namespace

void add_launch_verb(CLI::App& app, ChosenVerb& chosen) {
  auto flags = std::make_shared<LaunchFlags>();
  CLI::App* verb = app.add_subcommand("launch", "Run a verb or program in several processes");
  add_world_flags(*verb, *flags);
  add_process_flags(*verb, *flags);
  verb->add_option("COMMAND", flags->command, "train, doctor or a program, with its arguments");
  verb->positionals_at_end();
  verb->footer(fmt::format("Example: {} launch --nproc-per-node 4 -- train FILE -r parallel.data=4",
                           program_name()));
  verb->callback([flags, &app, &chosen] {
    for (const CLI::App* other : app.get_subcommands([](const CLI::App*) { return true; }))
      if (other->get_name() != "launch") flags->verbs.push_back(other->get_name());
    chosen = [flags](const Invocation&) {
      const LaunchOptions options = check(*flags);
      if (options.program.is_own) check_words(flags->command);
      return launch(options);
    };
  });
}

}  // namespace troupe
