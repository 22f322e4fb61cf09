#include "apps/launch/launch_options.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "runtime/error.h"
#include "runtime/print.h"
#include "runtime/world/cores.h"

namespace troupe {
namespace {

constexpr int most_processes = 4096;

[[noreturn]] void refuse(std::string_view flag, std::string_view value, std::string_view why,
                         const std::string& remedy) {
  throw Error(ErrorCode::usage, fmt::format("{} {}: {}", flag, value.substr(0, 64), why), remedy);
}

std::optional<int> whole(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(separator, begin), text.size());
    pieces.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return pieces;
}

int nodes_of(const std::string& text) {
  const auto range = split(text, ':');
  const auto least = whole(range.front()), most = whole(range.back());
  if (range.size() > 2 || !least || !most || *least < 1 || *most < *least || *most > 65'536)
    refuse("--nnodes", text, "not a number of nodes", "--nnodes 2");
  if (*least != *most)
    refuse("--nnodes", text, "the number of nodes cannot change during a run",
           fmt::format("--nnodes {} on each of {} nodes", *most, *most));
  return *most;
}

/// The GPUs that a program would see: those of the host, or those that CUDA_VISIBLE_DEVICES leaves.
int gpus() {
  int count = 0;
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    // CUDA takes the list up to the first entry that names none, as "-1" and "" do.
    for (const auto device : split(visible, ',')) {
      if (device.empty() || device.front() == '-') break;
      ++count;
    }
    return count;
  }
  while (std::filesystem::exists(fmt::format("/dev/nvidia{}", count))) ++count;
  return count;
}

int processes_of(const std::string& text) {
  if (text == "cpu") return static_cast<int>(std::max<std::size_t>(1, usable_cpus().size()));
  if (text == "auto") return gpus() > 0 ? gpus() : processes_of("cpu");
  if (text == "gpu") {
    if (gpus() == 0)
      refuse("--nproc-per-node", text, "this host has no GPU", "--nproc-per-node cpu");
    return gpus();
  }
  const auto count = whole(text);
  if (!count || *count < 1 || *count > most_processes)
    refuse("--nproc-per-node", text,
           fmt::format("neither a number from 1 to {} nor auto, cpu or gpu", most_processes),
           "--nproc-per-node 4");
  return *count;
}

std::chrono::milliseconds seconds_of(std::string_view flag, double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e6)
    refuse(flag, fmt::format("{}", seconds), "not a number of seconds", fmt::format("{} 30", flag));
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

/// torchrun's --rdzv-conf: join_timeout and timeout are seconds to wait for the other hosts; what
/// else it knows tunes a protocol that is not ours.
std::chrono::milliseconds join_timeout_of(const std::string& conf,
                                          std::chrono::milliseconds otherwise) {
  if (conf.empty()) return otherwise;
  for (const auto pair : split(conf, ',')) {
    const auto equals = pair.find('=');
    const auto name = pair.substr(0, equals);
    const auto value = equals == pair.npos ? std::nullopt : whole(pair.substr(equals + 1));
    if ((name != "join_timeout" && name != "timeout") || !value)
      refuse("--rdzv-conf", conf, fmt::format("{} is unknown", pair.substr(0, 64)),
             "--rdzv-conf join_timeout=300");
    otherwise = std::chrono::seconds(*value);
  }
  return otherwise;
}

std::vector<bool> shown_of(const std::string& text, int processes) {
  std::vector<bool> shown(static_cast<std::size_t>(processes), text.empty());
  if (text.empty()) return shown;
  for (const auto piece : split(text, ',')) {
    const auto rank = whole(piece);
    if (!rank || *rank >= processes)
      refuse("--local-ranks-filter", text,
             fmt::format("{} is not a local rank from 0 to {}", piece.substr(0, 32), processes - 1),
             "--local-ranks-filter 0");
    shown[static_cast<std::size_t>(*rank)] = true;
  }
  return shown;
}

/// The rendezvous endpoint, if there are several hosts.
std::optional<HostAndPort> rendezvous_address_of(const LaunchFlags& flags, int nodes) {
  if (flags.standalone || nodes == 1) return std::nullopt;
  if (!flags.rdzv_endpoint.empty()) return endpoint_of(flags.rdzv_endpoint);
  if (flags.master_addr.empty())
    refuse("--nnodes", flags.nnodes, "several hosts need a rendezvous endpoint",
           "--rdzv-endpoint HOST:29400 with one of the hosts, the same on all hosts");
  HostAndPort endpoint = endpoint_of(flags.master_addr);
  if (flags.master_port != 0) endpoint.port = flags.master_port;
  return endpoint;
}

void check_backend(const LaunchFlags& flags) {
  if (flags.rdzv_backend != "c10d" && flags.rdzv_backend != "static")
    refuse("--rdzv-backend", flags.rdzv_backend, "one of the launchers hosts the rendezvous",
           "leave it out, or write c10d or static, which have the same effect");
  if (flags.max_restarts < 0)
    refuse("--max-restarts", std::to_string(flags.max_restarts), "not a number of restarts",
           "--max-restarts 0");
  if (flags.master_port < 0 || flags.master_port > 65'535)
    refuse("--master-port", std::to_string(flags.master_port), "not a port", "--master-port 29500");
}

}  // namespace

std::vector<unsigned> outputs_of(std::string_view flag, std::string_view text, int processes) {
  constexpr const char* example =
      "3 for both outputs of all, 0:1,1:2 for standard output of local "
      "rank 0 and standard error of 1";
  std::vector<unsigned> outputs(static_cast<std::size_t>(processes), no_output);
  if (const auto all = whole(text)) {
    if (*all > 3) refuse(flag, text, "outputs are 0 (none), 1, 2 or 3 (both)", example);
    outputs.assign(outputs.size(), static_cast<unsigned>(*all));
    return outputs;
  }
  for (const auto piece : split(text, ',')) {
    const auto colon = piece.find(':');
    const auto rank = whole(piece.substr(0, colon));
    const auto which = colon == piece.npos ? std::nullopt : whole(piece.substr(colon + 1));
    if (colon == piece.npos && piece.find('=') != piece.npos)
      refuse(flag, text, "this flag of launch selects the outputs to write to files",
             fmt::format("options of the run follow the verb: {} launch ... -- train FILE -r {}",
                         program_name(), piece));
    if (!rank || !which || *which > 3) refuse(flag, text, "not understood", example);
    if (*rank >= processes)
      refuse(flag, text, fmt::format("there is no local rank {} of {}", *rank, processes), example);
    outputs[static_cast<std::size_t>(*rank)] = static_cast<unsigned>(*which);
  }
  return outputs;
}

HostAndPort endpoint_of(std::string_view text) {
  HostAndPort endpoint{.port = usual_rendezvous_port};
  const bool bracket = !text.empty() && text.front() == '[';
  const auto end = bracket ? text.find(']') : std::min(text.find(':'), text.size());
  if (end == text.npos)
    refuse("--rdzv-endpoint", text, "a bracket is not closed", "[ADDRESS]:29400");
  endpoint.host = bracket ? text.substr(1, end - 1) : text.substr(0, end);
  const auto rest = text.substr(bracket ? end + 1 : end);
  if (!rest.empty()) {
    const auto port = rest.front() == ':' ? whole(rest.substr(1)) : std::nullopt;
    if (!port || *port < 1 || *port > 65'535)
      refuse("--rdzv-endpoint", text, "not HOST:PORT", "--rdzv-endpoint HOST:29400");
    endpoint.port = static_cast<int>(*port);
  }
  if (endpoint.host.empty())
    refuse("--rdzv-endpoint", text, "it has no host", "--rdzv-endpoint HOST:29400");
  return endpoint;
}

LaunchOptions check(const LaunchFlags& flags) {
  check_backend(flags);
  LaunchOptions options;
  options.nodes = flags.standalone ? 1 : nodes_of(flags.nnodes);
  options.processes = processes_of(flags.nproc_per_node);
  if (!flags.standalone) options.node_rank = flags.node_rank;
  if (options.node_rank && (*options.node_rank < 0 || *options.node_rank >= options.nodes))
    refuse("--node-rank", std::to_string(*options.node_rank),
           fmt::format("--nnodes {} has node ranks 0 to {}", options.nodes, options.nodes - 1),
           "number the nodes from 0");
  options.endpoint = rendezvous_address_of(flags, options.nodes);
  options.run_id = flags.rdzv_id;
  options.master_address = flags.master_addr;
  options.master_port = flags.master_port;
  if (options.nodes > 1 && flags.rdzv_endpoint.empty()) options.master_port = 0;
  options.local_address = flags.local_addr;
  options.max_restarts = flags.max_restarts;
  options.join_timeout = join_timeout_of(flags.rdzv_conf, options.join_timeout);
  options.grace_period = seconds_of("--grace-period", flags.grace_period);
  options.log_folder = flags.log_dir;
  options.redirects = outputs_of("--redirects", flags.redirects, options.processes);
  options.tees = outputs_of("--tee", flags.tee, options.processes);
  options.shown = shown_of(flags.local_ranks_filter, options.processes);
  options.role = flags.role;
  if (!flags.log_line_prefix_template.empty()) options.prefix = flags.log_line_prefix_template;
  options.program =
      program_of(flags.command, flags.no_python ? std::vector<std::string>() : flags.verbs);
  return options;
}

}  // namespace troupe
