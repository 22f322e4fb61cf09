#pragma once
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/launch/launch_options.h"
#include "apps/launch/outcome.h"

namespace troupe {

/// The place of one launcher, and of the processes it starts, among all of the job.
struct Place {
  int node = 0, nodes = 1;
  int first_rank = 0;  ///< of this host's processes; the others follow
  int size = 1;        ///< processes of all hosts
  std::string host;
  std::string leading_host;  ///< where rank 0 is
  std::string run_id;        ///< of this job alone
  std::string coordinator;   ///< TROUPE_COORDINATOR of the processes
  std::string job_key;       ///< TROUPE_JOB_KEY of the processes
  std::string master_address;
  std::uint16_t master_port = 0;
};

/// The launchers of a job, one a host. The one whose address the endpoint is hosts the coordinators
/// of launchers and of processes.
class NodeGroup {
 public:
  /// Waits until the launchers of all hosts have come. Throws Error (io) that names what is
  /// missing, after the join timeout, or says that it was stopped.
  static std::unique_ptr<NodeGroup> meet(const LaunchOptions& options, std::stop_token stop = {});

  virtual ~NodeGroup() = default;
  virtual const Place& place() const = 0;

  /// A process of this host has ended badly: its peers hear of it at once, whatever their
  /// connections still say.
  virtual void report_lost(int rank, const std::string& reason) = 0;

  /// Tells the launchers of the other hosts. The first failure that they hear of ends their
  /// processes.
  virtual void tell(const Failure& failure) = 0;
  /// This host ends its processes, as it has heard of a failure: it is worth waiting for.
  virtual void ending() = 0;
  /// Whether each other host has said that it ends its processes, or that they have ended.
  virtual bool all_are_ending() const = 0;
  /// Readable when there is something to hear; -1 if there never is.
  virtual int descriptor() const = 0;
  /// What other launchers have told, lost ones included.
  virtual std::vector<Failure> hear() = 0;

  /// All processes of this host have ended. Whether those of all hosts have is told by `all_done`,
  /// which changes with the descriptor.
  virtual void done() = 0;
  virtual bool all_done() const = 0;
};

/// The name of a job with something behind it that no other job has: names serve many jobs, as
/// torchrun's default "none" does.
std::string unique_run_id(const std::string& run_id);

/// A port of this host that nobody listens on.
std::uint16_t free_port();

}  // namespace troupe
