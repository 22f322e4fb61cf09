#pragma once
// Computes the layout of a job from a user's request and the profile of a cluster.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/jobscript/profile.h"
#include "apps/train/work_distribution.h"
#include "runtime/transport/topology.h"

namespace troupe {

#ifdef TROUPE_CUDA
inline constexpr bool built_with_cuda = true;
#else
inline constexpr bool built_with_cuda = false;
#endif

/// An option for which a run fails on a node without a GPU: "device is cuda", and the options of a
/// run that does not.
struct GpuDemand {
  std::string option, remedy;
};

/// The request on the command line. Values that are not given depend on the cluster and the options
/// file.
struct JobRequest {
  std::int64_t nodes = 1;
  std::chrono::seconds time{0};
  bool computes_on_gpus = built_with_cuda;     ///< the run would, on a node that has them
  std::optional<GpuDemand> gpu_demand;         ///< and fails on a node that has none
  std::optional<std::int64_t> gpus_per_node;   ///< 0: CPU nodes
  std::optional<std::int64_t> tasks_per_node;  ///< processes on a node
  std::optional<std::int64_t> cpus_per_task;
  std::optional<double> memory;  ///< GiB per node
  std::string partition, qos, account, constraint, reservation, mail;
  std::string name;                                   ///< of the job
  std::optional<std::chrono::seconds> signal_before;  ///< of the time limit; 0: no signal
  bool requeue = true;
  std::string launcher =
      "srun";             ///< srun: a task is a process; launch: `troupe launch` starts them
  std::string container;  ///< edf, apptainer, podman or empty
  std::string image;      ///< of the container; empty: named after it, in `folder`
  std::string folder;     ///< of the definition files, relative to where the job is submitted
  std::string program = "troupe";
  std::vector<std::string> sbatch;  ///< further options of #SBATCH, as they stand
  std::vector<std::string> setup;   ///< further commands before the run, such as module load
  std::string data_folder;          ///< TROUPE_DATA, if the run reads there; empty: not set
  std::string built_for;            ///< architecture of `program`; empty: unknown
};

/// The requirements of the options file for processes, with their positions in the file.
struct JobShape {
  std::int64_t intra_op_threads = 1, workers = 1;
  std::string file;  ///< as it was named on the command line
  WorkLimits work;
  bool interface_open = false;  ///< whether the script may set parallel.interface
  bool bf16 = false;            ///< whether convolutions and linear layers multiply in bf16
  std::string pipeline_where = "default", data_where = "default";
  std::string transport{automatic_transport};  ///< parallel.transport
  std::string fetched_data;  ///< a data set of `fetch` without data.path; empty for others

  std::int64_t stages() const { return work.total_stages(); }
};

/// The job as the script writes it.
struct JobLayout {
  ClusterProfile profile;
  ClusterProfile::NodeKind kind;
  ClusterProfile::Partition partition;
  std::int64_t nodes = 1;
  std::int64_t gpus = 0;  ///< of a node
  bool gpus_stay_idle = false;
  std::int64_t processes = 1;  ///< of a node
  std::int64_t tasks = 1;      ///< of a node, as Slurm counts: 1 where `troupe launch` forks
  std::int64_t cores = 1;      ///< of a task
  double memory = 0;           ///< GiB of a node; 0: do not ask
  std::chrono::seconds time{0};
  std::chrono::seconds signal_before{0};     ///< 0: none
  std::vector<std::string_view> conditions;  ///< that hold, of ClusterProfile::Line::when
  std::vector<std::string> notes;            ///< for the user, beside the script

  bool computes_on_gpu() const { return gpus > 0 && !gpus_stay_idle; }
  bool holds(const ClusterProfile::Line& line) const;
};

/// Whether the container has the data set: Debian's package of Fashion-MNIST.
bool has_data_in_image(const JobShape& shape, const JobRequest& request);

/// The command that builds Troupe for the GPUs of such nodes.
std::string build_for(const ClusterProfile::NodeKind& kind);

/// Throws Error{usage} for requests that exceed the cluster (more nodes, time or GPUs than any
/// partition allows, several processes of a run on a GPU). Throws Error{bad_options} with the line
/// to change if there are more processes than stages.
JobLayout lay_out_job(const ClusterProfile& profile, const JobRequest& request,
                      const JobShape& shape);

/// Throws Error{bad_options} if a process would have no stage.
void check_work(const JobShape& shape, std::int64_t nodes, std::int64_t processes);

}  // namespace troupe
