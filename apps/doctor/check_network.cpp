// The world, the network interfaces, and the variables of a cluster's profile.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <sstream>

#include "apps/doctor/checks.h"
#include "apps/error_wording.h"
#include "runtime/control/endpoint.h"
#include "runtime/control/job_key.h"
#include "runtime/text.h"

namespace troupe {
namespace {

using Severity = Finding::Severity;

/// One name of a list of interfaces, matched as the program that reads the list does.
struct Wanted {
  std::string variable, name;
  bool by_prefix = false;
  bool fails = false;  ///< whether this program reads it, and a run fails with it

  bool matches(const std::string& interface) const {
    return by_prefix ? interface.starts_with(name) : interface == name;
  }
};

/// NCCL takes prefixes, exact names after "=", and leaves out what follows "^"; the others take
/// exact names. GLOO_SOCKET_IFNAME is PyTorch's: Gloo itself is given an address.
std::vector<Wanted> wanted_interfaces(const Machine& machine, const Demands& demands) {
  std::vector<Wanted> wanted;
  const auto add = [&](const std::string& variable, std::string list, bool by_prefix, bool fails) {
    if (list.starts_with('^')) return;
    if (list.starts_with('=')) {
      list.erase(0, 1);
      by_prefix = false;
    }
    std::istringstream names(list);
    for (std::string name; std::getline(names, name, ',');) {
      name = name.substr(0, name.find(':'));  // a port of the interface
      if (!name.empty()) wanted.push_back({variable, name, by_prefix, fails});
    }
  };
  add("NCCL_SOCKET_IFNAME", machine.variable("NCCL_SOCKET_IFNAME"), true, machine.nccl);
  add("GLOO_SOCKET_IFNAME", machine.variable("GLOO_SOCKET_IFNAME"), false, false);
  add("parallel.interface", demands.interface, false, true);
  return wanted;
}

Severity severity_of(const Wanted& wanted) {
  return wanted.fails ? Severity::error : Severity::warning;
}

const char* unread(const Wanted& wanted) {
  return wanted.fails ? "" : "; this troupe does not read it, but other programs of the job may";
}

Finding absent(const Machine& machine, const Wanted& wanted) {
  const std::vector<std::string> names = usable_interfaces(machine);
  std::vector<std::string_view> useful;
  for (const auto& name : names)
    if (name != "lo") useful.push_back(name);
  const std::string best = useful.empty() ? "lo" : nearest(wanted.name.substr(0, 64), useful);
  return {severity_of(wanted), "interfaces",
          fmt::format("{} asks for {}, but {} has {}{}", wanted.variable, wanted.name.substr(0, 40),
                      machine.host.empty() ? "this node" : machine.host,
                      names.empty() ? "no interface" : listed(names, 8), unread(wanted)),
          fmt::format("set {} to one of them, such as {}", wanted.variable, best)};
}

}  // namespace

std::vector<std::string> usable_interfaces(const Machine& machine) {
  std::vector<std::string> names;
  for (const auto& interface : machine.interfaces)
    if (interface.up && interface.has_address) names.push_back(interface.name);
  return names;
}

Findings check_interfaces(const Machine& machine, const Demands& demands) {
  Findings findings;
  for (const Wanted& wanted : wanted_interfaces(machine, demands)) {
    std::vector<const Machine::Interface*> matching;
    for (const auto& interface : machine.interfaces)
      if (wanted.matches(interface.name)) matching.push_back(&interface);
    if (matching.empty()) {
      findings.push_back(absent(machine, wanted));
      continue;
    }
    const bool usable = std::any_of(matching.begin(), matching.end(),
                                    [](const auto* i) { return i->up && i->has_address; });
    if (!usable)
      findings.push_back(
          {severity_of(wanted), "interfaces",
           fmt::format("{} of {} is {}{}", matching[0]->name, wanted.variable,
                       matching[0]->up ? "without an address" : "down", unread(wanted)),
           fmt::format("ip link set {} up, or choose another", matching[0]->name)});
    const auto alias = std::find_if(matching.begin(), matching.end(), [](const auto* i) {
      return i->name.find('.') != std::string::npos;
    });
    if (wanted.by_prefix && alias != matching.end() && (*alias)->name != wanted.name)
      findings.push_back(
          {Severity::warning, "interfaces",
           fmt::format(
               "{}={} is a prefix and also selects the VLAN {}, which other nodes may not reach",
               wanted.variable, wanted.name, (*alias)->name),
           "give exact names after an equals sign: =hsn0,hsn1"});
  }
  return findings;
}

namespace {

Finding world_error(const Error& error) {
  const Error worded = in_words_of_the_command(error);
  return {Severity::error, "world", worded.message(), worded.remedy()};
}

/// Errors in the variables by which processes find and authenticate each other.
Findings check_rendezvous(const Machine& machine) {
  Findings findings;
  const std::string place = machine.variable("TROUPE_COORDINATOR");
  if (!place.empty() && !parse_endpoint(place))
    findings.push_back(
        {Severity::error, "world",
         fmt::format("TROUPE_COORDINATOR is {}, which is not an address", place.substr(0, 100)),
         "tcp://HOST:PORT, as a launcher sets it"});
  if (machine.has("TROUPE_JOB_KEY")) try {
      JobKey::parse(machine.variable("TROUPE_JOB_KEY"));
    } catch (const Error& wrong) {
      findings.push_back(world_error(wrong));
    }
  if (machine.rendezvous_error) findings.push_back(world_error(*machine.rendezvous_error));
  return findings;
}

}  // namespace

Findings check_world(const Machine& machine, const Demands& demands) {
  if (machine.world_error) return {world_error(*machine.world_error)};
  Findings findings;
  const auto error = [&](const std::string& message, const std::string& remedy) {
    findings.push_back({Severity::error, "world", message, remedy});
  };
  if (!machine.world) return findings;
  if (machine.several_nodes()) {
    const std::string master = machine.variable("MASTER_ADDR");
    if (is_loopback(master))
      error(
          fmt::format("MASTER_ADDR is {}, a loopback address, but the world has {} nodes", master,
                      machine.world->nodes),
          "set it to the first host: scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1");
    const std::string coordinator = machine.variable("TROUPE_COORDINATOR");
    if (const auto at = parse_endpoint(coordinator); at && is_loopback(at->host))
      error(fmt::format("TROUPE_COORDINATOR is {}, a loopback address, but the world has {} nodes",
                        coordinator, machine.world->nodes),
            "set it to an address that the other nodes reach");
  }
  if (machine.world->size > 1)
    std::ranges::move(check_rendezvous(machine), std::back_inserter(findings));
  if (!demands.known) return findings;
  if (!joins_hosts(demands.transport) && machine.several_nodes())
    error(fmt::format("parallel.transport: {}, but the world has {} nodes", demands.transport,
                      machine.world->nodes),
          fmt::format("set parallel.transport: {} ({})", automatic_transport,
                      meaning_of_transport(automatic_transport)));
  const std::int64_t work = demands.work.total_stages(), size = machine.world->size;
  if (size > work)
    error(fmt::format("{}, but {}", counted(size, "process"), work_words(demands.work)),
          fmt::format("start {}{}", counted(work, "process"), or_give(size, demands.work)));
  if (const std::string uneven = uneven_words(size, demands.work); !uneven.empty())
    findings.push_back({Severity::warning, "world", uneven,
                        fmt::format("start {} processes{}", even_processes(size, demands.work),
                                    or_give(size, demands.work))});
  return findings;
}

Findings check_cluster(const Machine& machine, const ClusterProfile& profile) {
  Findings findings;
  const auto of_kind = [&](const auto& kind) { return kind.architecture == machine.architecture; };
  if (std::none_of(profile.nodes.begin(), profile.nodes.end(), of_kind))
    findings.push_back(
        {Severity::error, "cluster",
         fmt::format("this troupe is built for {}, but the nodes of {} are {}",
                     machine.architecture, profile.title, profile.nodes.front().architecture),
         "build it on a compute node of the cluster"});
  else if (!machine.world)  // such as a login node: a job's own nodes are of the right kind
    for (const auto& kind : profile.nodes)
      if (kind.gpus > 0 && !of_kind(kind))
        findings.push_back(
            {Severity::warning, "cluster",
             fmt::format("this troupe is built for {}, but the nodes {} of {} are {}",
                         machine.architecture, kind.name, profile.title, kind.architecture),
             "for runs on these nodes, build it on one of them"});
  const bool gpus = machine.allocated_gpus() > 0;
  for (const auto& line : profile.environment) {
    const bool needed =
        std::all_of(line.when.begin(), line.when.end(), [&](const std::string& word) {
          return word == "gpu"   ? gpus
                 : word == "cpu" ? !gpus
                 : word == "several_nodes"
                     ? machine.several_nodes()
                     : word == "native" && !machine.has("APPTAINER_CONTAINER");
        });
    // A value that the shell expands is unknown here.
    if (!needed || !machine.world || line.text.find('$') != std::string::npos) continue;
    if (!machine.has(line.name))
      findings.push_back({Severity::warning, "cluster",
                          fmt::format("{} is not set: {}", line.name, line.why),
                          fmt::format("export {}=\"{}\"", line.name, line.text)});
    else if (machine.variable(line.name) != line.text)
      findings.push_back(
          {Severity::warning, "cluster",
           fmt::format("{} is {}, but the profile of {} sets {}: {}", line.name,
                       machine.variable(line.name), profile.title, line.text, line.why),
           fmt::format("export {}=\"{}\"", line.name, line.text)});
  }
  return findings;
}

Findings check_all(const Machine& machine, const Demands& demands) {
  Findings all;
  for (Findings& findings : std::vector<Findings>{
           check_world(machine, demands), check_interfaces(machine, demands),
           check_architecture(machine), check_precision(machine, demands), check_limits(machine),
           check_contradictions(machine), check_misspelt(machine), check_gpus(machine, demands),
           check_cores(machine, demands), check_folders(machine)})
    std::move(findings.begin(), findings.end(), std::back_inserter(all));
  std::stable_sort(all.begin(), all.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return all;
}

}  // namespace troupe
