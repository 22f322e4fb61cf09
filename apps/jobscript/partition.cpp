#include "apps/jobscript/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "apps/jobscript/slurm_time.h"
#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe {
namespace {

using Partition = ClusterProfile::Partition;

std::string label(const Partition& partition) {
  const std::string name = partition.name.empty() ? "the default partition" : partition.name;
  return partition.qos.empty() ? name : fmt::format("{} with --qos {}", name, partition.qos);
}

/// Whether the partition has nodes for the job: with GPUs or without, as it wants; where a cluster
/// has only GPU nodes, those serve for the other jobs too.
bool suits(const ClusterProfile& profile, const Partition& partition, std::int64_t gpus) {
  const auto has_gpus = [&](const Partition& p) { return profile.kind_of(p).gpus > 0; };
  if (gpus > 0) return has_gpus(partition);
  const bool any_without =
      !std::all_of(profile.partitions.begin(), profile.partitions.end(), has_gpus);
  return !any_without || !has_gpus(partition);
}

[[noreturn]] void refuse_name(const ClusterProfile& profile, const JobRequest& request) {
  std::vector<std::string> labels;
  std::vector<std::string_view> names;
  for (const Partition& partition : profile.partitions) {
    labels.push_back(label(partition));
    if (!partition.name.empty()) names.push_back(partition.name);
  }
  const std::string near = meant(request.partition, names);
  const std::string wanted = request.partition.empty()
                                 ? fmt::format("--qos {}", request.qos)
                                 : fmt::format("partition {}", request.partition.substr(0, 100));
  throw Error(ErrorCode::usage, fmt::format("{} has no {}", profile.title, wanted),
              near.empty() || request.partition.empty()
                  ? fmt::format("it has {}", listed(labels, labels.size()))
                  : fmt::format("did you mean {}? It has {}", near, listed(labels, labels.size())));
}

[[noreturn]] void refuse_size(const ClusterProfile& profile, const JobRequest& request,
                              const std::vector<const Partition*>& candidates, std::int64_t gpus) {
  if (candidates.empty())
    throw Error(
        ErrorCode::usage,
        fmt::format("{} has no nodes {} GPUs", profile.title, gpus > 0 ? "with" : "without"),
        gpus > 0 ? "--gpus-per-node 0" : "--gpus-per-node 1 or more");
  std::string limits;
  for (const Partition* partition : candidates)
    limits += fmt::format("{}{} takes {}", limits.empty() ? "" : "; ", label(*partition),
                          beyond(*partition, request, gpus));
  const auto longest = std::max_element(
      candidates.begin(), candidates.end(),
      [](const Partition* a, const Partition* b) { return a->max_time < b->max_time; });
  const bool too_long = request.time > (*longest)->max_time;
  throw Error(
      ErrorCode::usage,
      fmt::format("no partition of {} accepts the job: {}", profile.title, limits),
      too_long ? fmt::format("--time {}: the job stops with a checkpoint, is requeued and resumes",
                             slurm_time((*longest)->max_time))
               : "use fewer nodes, or another --partition");
}

}  // namespace

std::string beyond(const Partition& partition, const JobRequest& request, std::int64_t gpus) {
  if (partition.max_nodes > 0 && request.nodes > partition.max_nodes)
    return fmt::format("at most {}, not {}", counted(partition.max_nodes, "node"), request.nodes);
  if (request.nodes < partition.min_nodes)
    return fmt::format("at least {} nodes, not {}", partition.min_nodes, request.nodes);
  if (partition.max_node_gpus > 0 && gpus > partition.max_node_gpus)
    return fmt::format("at most {} of a node, not {}", counted(partition.max_node_gpus, "GPU"),
                       gpus);
  if (partition.max_gpus > 0 && gpus * request.nodes > partition.max_gpus)
    return fmt::format("at most {} GPUs, not {}", partition.max_gpus, gpus * request.nodes);
  if (request.time > partition.max_time)
    return fmt::format("at most {}, not {}", slurm_time(partition.max_time),
                       slurm_time(request.time));
  return {};
}

Partition choose_partition(const ClusterProfile& profile, const JobRequest& request,
                           std::int64_t gpus) {
  const bool named = !request.partition.empty() || !request.qos.empty();
  std::vector<const Partition*> known, candidates;
  for (const Partition& partition : profile.partitions) {
    const bool other_name = !request.partition.empty() && partition.name != request.partition;
    const bool other_qos = !request.qos.empty() && partition.qos != request.qos;
    const bool unasked = request.qos.empty() && !partition.qos.empty();
    if (other_name || other_qos || unasked || (!named && partition.by_name)) continue;
    known.push_back(&partition);
    if (suits(profile, partition, gpus)) candidates.push_back(&partition);
  }
  if (named && known.empty()) {
    // A QOS that the profile does not know may still be the user's own, for a partition it does.
    if (!request.partition.empty() && !request.qos.empty()) {
      JobRequest plain = request;
      plain.qos.clear();
      Partition partition = choose_partition(profile, plain, gpus);
      partition.qos = request.qos;
      return partition;
    }
    refuse_name(profile, request);
  }
  if (named && candidates.empty()) candidates = known;  // nodes without GPUs are an error below
  for (const Partition* partition : candidates)
    if (beyond(*partition, request, gpus).empty()) return *partition;
  refuse_size(profile, request, candidates, gpus);
}

}  // namespace troupe
