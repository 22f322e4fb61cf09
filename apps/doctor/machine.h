#pragma once
// Everything that the doctor examines, as a value. Checks are functions of it, so tests can
// construct any machine.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/gpu_library.h"
#include "runtime/error.h"
#include "runtime/world/environment.h"
#include "runtime/world/world.h"

namespace troupe {

struct Machine {
  /// A folder that programs keep temporary files or compiled kernels in.
  struct Folder {
    std::string variable;     ///< the variable that names it: "TMPDIR"
    std::string path;         ///< the path in the variable
    std::string file_system;  ///< "lustre", "nfs", "tmpfs", …; empty if the folder does not exist
  };
  struct Interface {
    std::string name;
    bool up = true;
    bool has_address = true;
  };
  static constexpr std::uint64_t unlimited = UINT64_MAX;

  Environment::Variables environment;
  std::string host;
  std::optional<World> world;             ///< of this process, if a launcher started it
  std::optional<Error> world_error;       ///< the error in the launcher's variables
  std::optional<Error> rendezvous_error;  ///< why the processes cannot connect by a job file

  std::string architecture;               ///< "x86_64"
  std::vector<std::string> features;      ///< of the processor, as /proc/cpuinfo calls them
  std::vector<std::string> compiled_for;  ///< features that this program does not run without
  int cores = 1;                          ///< that this process has for itself
  int node_cores = 0;           ///< that all processes of this node have together; 0: not known
  std::optional<double> quota;  ///< CPUs that its control group may use
  int affinity = 1;             ///< CPUs it may run on

  std::vector<Folder> folders;
  std::vector<Interface> interfaces;
  std::uint64_t open_files = unlimited;  ///< limits of this process
  std::uint64_t locked_memory = unlimited;
  bool clock_synchronised = true;

  std::string nvidia_driver;        ///< "580.159.03"; empty: none is loaded
  int gpus_of_node = 0;             ///< NVIDIA's, also those that this process may not use
  std::optional<GpuSurvey> cuda;    ///< what the part for GPUs says; nothing: it cannot be opened
  std::optional<Error> cuda_error;  ///< why: Error{io} if this build has none
  std::optional<Error> gpu_error;   ///< why the first GPU did not run a kernel, if it was tried
  bool nccl = false;                ///< whether this program contains NCCL

  /// The value of a variable; empty if it is not set.
  std::string variable(const std::string& name) const;
  bool has(const std::string& name) const { return environment.contains(name); }
  int processes() const { return world ? world->local_size : 1; }  ///< on this node
  bool several_nodes() const { return world && world->nodes > 1; }
  /// GPUs of this node that the queue gave to the job; 0 if none or unknown.
  int allocated_gpus() const;
  /// Whether kernels of this program run on the first GPU that CUDA shows: as the trial has found,
  /// or without one as far as can be told.
  bool has_usable_gpu() const;
};

/// The machine and process that this is called on. `tries_gpu`: runs a kernel on the first GPU that
/// CUDA shows, if this program has kernels for it and the job has one process.
Machine observe(bool tries_gpu);

}  // namespace troupe
