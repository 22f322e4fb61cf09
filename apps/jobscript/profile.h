#pragma once
// The profile of a cluster, read from clusters/NAME.yaml: nodes, partitions with their limits, and
// the lines that a job needs on this cluster, each with its reason.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe {

struct ClusterProfile {
  /// Nodes of one type.
  struct NodeKind {
    std::string name;            ///< partitions refer to it
    std::string architecture;    ///< "x86_64", "aarch64"
    std::int64_t cores = 0;      ///< that jobs may use
    std::int64_t gpus = 0;       ///< on a node; 0: none
    std::string gpu;             ///< the model, such as "A100"
    bool gpu_cuda = true;        ///< whether CUDA runs on them
    std::string gpu_request;     ///< "--gres=gpu:v100:{gpus}"; {gpus_per_task} as well
    std::int64_t gpu_cores = 0;  ///< cores that go with a GPU
    double gpu_memory = 0;       ///< GiB of the node's memory that go with a GPU; 0: do not ask
    double core_memory = 0;      ///< GiB that go with a core, without GPUs; 0: do not ask
    std::vector<std::int64_t> gpu_counts;  ///< of one node that the site gives; empty: any
  };
  struct Partition {
    std::string name;   ///< empty: the site chooses by the request
    std::string nodes;  ///< kind of its nodes
    std::int64_t min_nodes = 1;
    std::int64_t max_nodes = 0;      ///< 0: no limit known
    std::int64_t max_gpus = 0;       ///< of a job; 0: no limit known
    std::int64_t max_node_gpus = 0;  ///< of one node; 0: all
    std::chrono::seconds max_time{0};
    std::string qos;
    bool whole_nodes = false;  ///< a job has its nodes for itself, and pays for all of them
    bool by_name = false;      ///< used only on request: tests, special access
    std::string note;          ///< a note for its users
  };
  /// A line, or a variable where `name` is given, that jobs need when all of `when` holds: gpu,
  /// cpu, native (no container), container, edf, apptainer, podman, several_nodes, all_gpus.
  struct Line {
    std::string name;
    std::string text;
    std::string why;
    std::vector<std::string> when;
  };
  struct Container {
    std::vector<std::string> kinds;    ///< edf, apptainer, podman
    std::vector<std::string> mounts;   ///< folders of the site that jobs need
    std::vector<std::string> options;  ///< of apptainer exec or podman run
    std::vector<Line> annotations;     ///< of an EDF
  };

  std::string name;     ///< of the file, without .yaml
  std::string title;    ///< "Clariden (Alps, CSCS)"
  std::string site;     ///< address of the centre's page
  std::string checked;  ///< when the facts were last compared with it: "2026-11"
  std::string closed;   ///< if the cluster is closed: the date, and its replacement
  std::string note;
  bool needs_account = true;
  std::string interface;  ///< the fast network's, for parallel.interface
  std::vector<NodeKind> nodes;
  std::vector<Partition> partitions;  ///< in order of preference
  std::vector<Line> directives;       ///< of #SBATCH
  std::vector<Line> setup;            ///< shell lines before the run
  std::vector<Line> environment;
  std::vector<Line> srun;  ///< its options
  Container container;

  const NodeKind& kind_of(const Partition& partition) const;
  bool has_cuda_gpus() const;
};

/// Reads a profile. A profile with `like: NAME` extends that profile (found by find_profile) and
/// can override every key; a list replaces the whole list.
///
/// Throws Error{bad_options} with file, line and remedy: unknown keys with the nearest known one,
/// wrong values, partitions of unknown nodes, times that are none, profiles that are like each
/// other.
ClusterProfile read_profile(const std::filesystem::path& file);

/// The folders that are searched for NAME.yaml, the first that has it wins: those of
/// TROUPE_CLUSTER_PATH (separated by colons), troupe/clusters in XDG_CONFIG_HOME (else ~/.config),
/// and share/troupe/clusters beside the folder that this program is in.
std::vector<std::filesystem::path> profile_folders();

/// The profile of a name, or of a path if it has a slash or ends in .yaml. Throws Error{usage} that
/// names the nearest known cluster.
ClusterProfile find_profile(const std::string& name_or_path);

/// The file of a name in these folders. Throws as find_profile does.
std::filesystem::path profile_file(const std::string& name);

/// The file of every profile that can be found by name, sorted by name.
std::vector<std::filesystem::path> all_profiles();

}  // namespace troupe
