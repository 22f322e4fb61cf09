#pragma once
// A Slurm that a test has for itself: real daemons on loopback, gone with the test.

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/system/process.h"

namespace troupe {

/// munge, slurmctld and a slurmd a node, started by tests/system/slurm/cluster.sh in a temporary
/// folder. The partition is `test`, the nodes are node0, node1, …; all share this machine, its
/// memory, files and network, and claim 1,024 cores and eight GPUs of each type that a known
/// cluster has (the GPUs do not exist). A requeued job starts again after about 6 seconds.
///
/// Daemons and jobs live in a PID namespace of their own that ends with this object, and with the
/// process that made it, whatever becomes of that.
///
///     if (const std::string why = SlurmCluster::missing(); !why.empty()) GTEST_SKIP() << why;
///     const SlurmCluster slurm;
///     const Outcome ran = slurm.run({"srun", "-N2", "--ntasks-per-node=2", "hostname"});
class SlurmCluster {
 public:
  /// What keeps this machine from having one ("needs root"), or empty.
  static std::string missing();

  /// Returns when all nodes are idle (half a second). Throws std::runtime_error with what the
  /// daemons said if they do not get there.
  explicit SlurmCluster(int nodes = 2);
  ~SlurmCluster();
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;

  /// Runs a Slurm command, or anything else, with SLURM_CONF set and looked up in PATH. It is ended
  /// after `limit`, with exit code 124.
  Outcome run(const std::vector<std::string>& words, const std::string& folder = ".",
              std::chrono::seconds limit = std::chrono::seconds(150)) const;

  /// Submits a script from `folder`; the job's id. Throws std::runtime_error with what sbatch said.
  std::string submit(const std::filesystem::path& script, const std::string& folder = ".",
                     const std::vector<std::string>& options = {}) const;

  /// "PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", …
  std::string state(const std::string& job) const;

  /// Waits until the job has left the queue for good and returns its state, or its last one when
  /// the time is up. A requeued job has not left it.
  std::string wait_for_end(const std::string& job,
                           std::chrono::seconds limit = std::chrono::seconds(150)) const;

  /// The process of a job's task as this test's processes number it, or -1; for signals.
  pid_t process_of(const std::string& job, int rank) const;

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path configuration() const { return folder_ / "slurm.conf"; }

 private:
  void start(int nodes);
  void stop();

  std::filesystem::path folder_;
  pid_t script_ = -1;
  int keep_alive_ = -1;  ///< the script ends when this pipe closes
};

}  // namespace troupe
