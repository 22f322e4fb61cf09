#pragma once
// The checks of the doctor. Each check is a pure function of a machine and of the requirements of a
// run.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/doctor/machine.h"
#include "apps/jobscript/profile.h"
#include "apps/options/options.h"
#include "apps/train/work_distribution.h"
#include "ops/devices.h"
#include "runtime/transport/topology.h"

namespace troupe {

struct Finding {
  enum class Severity {
    warning,  ///< a run would be slower, or differ from the intention
    error,    ///< a run would fail
  };
  Severity severity = Severity::warning;
  std::string check;    ///< the name of what found it
  std::string message;  ///< the problem, with its values
  std::string remedy;
  bool of_process = false;  ///< other processes of the node may not have it
};
using Findings = std::vector<Finding>;

/// What the options file requires of a machine. The defaults are those of a run without a file.
struct Demands {
  WorkLimits work;                    ///< parallel.pipeline, parallel.data
  std::int64_t actor_threads = 0;     ///< 0: as many as stages, at most the cores
  std::int64_t intra_op_threads = 0;  ///< 0: the cores, divided by the actor threads
  std::int64_t workers = 1;
  std::string interface;                       ///< parallel.interface, or empty
  std::string transport{automatic_transport};  ///< parallel.transport
  DType products = DType::f32;                 ///< bf16 for bf16-mixed, f16 for 16-mixed
  bool tf32 = false;                           ///< products may be rounded to TF32
  DeviceChoice device = DeviceChoice::automatic;
  bool cuda_graphs = false, resident = false, nondeterministic = false;  ///< need a GPU
  bool known = false;  ///< whether there is a file
};

/// Whether a GPU computes: one is demanded, or `auto` finds one, which it takes in one process
/// only.
bool computes_on_gpu(const Machine& machine, const Demands& demands);

/// The maximum number of stages in this process. Some processes may have one fewer.
std::int64_t stages_of_process(const Machine& machine, const Demands& demands);

/// Threads of a kernel in this process.
std::int64_t intra_op_threads(const Machine& machine, const Demands& demands);

/// Misspelt variables, and variables that no program reads.
Findings check_misspelt(const Machine& machine);
/// Variables that contradict each other, and an incomplete set of torchrun's.
Findings check_contradictions(const Machine& machine);
/// The launcher's variables, loopback addresses, more processes than stages × replicas.
Findings check_world(const Machine& machine, const Demands& demands);
/// More threads than cores.
Findings check_cores(const Machine& machine, const Demands& demands);
/// A program for another processor.
Findings check_architecture(const Machine& machine);
/// A processor without the instructions for the precision.
Findings check_precision(const Machine& machine, const Demands& demands);
/// GPUs that the run cannot use, or leaves idle; nothing where there are none and none is asked
/// for.
Findings check_gpus(const Machine& machine, const Demands& demands);
/// Temporary files and caches on file systems that all nodes share.
Findings check_folders(const Machine& machine);
/// Interfaces that are up and have an address, in the order of the system.
std::vector<std::string> usable_interfaces(const Machine& machine);
/// Interfaces that do not exist or are down.
Findings check_interfaces(const Machine& machine, const Demands& demands);
/// Shared memory, open files, locked memory, the clock.
Findings check_limits(const Machine& machine);
/// Variables that a cluster's jobs need and this process lacks; the processor of its nodes.
Findings check_cluster(const Machine& machine, const ClusterProfile& profile);

/// The value that a check examined: "4 for this process".
struct Observation {
  std::string check;  ///< as in Finding
  std::string seen;
  std::string if_well = {};  ///< added if there is no finding
};
/// In the order of check_all.
std::vector<Observation> observations(const Machine& machine, const Demands& demands);

/// The result of opening the data set and reading its files completely.
struct DataCheck {
  Observation observation;
  Findings findings;
};
DataCheck check_data(const Options& options);

/// All of them but check_cluster and check_data; errors first.
Findings check_all(const Machine& machine, const Demands& demands);

}  // namespace troupe
