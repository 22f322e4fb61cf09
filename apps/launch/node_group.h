#pragma once
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/launch/launch_options.h"
#include "apps/launch/outcome.h"

namespace troupe {

/// The place of one launcher and of its processes in the job.
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

/// The launchers of a job, one on each host. The launcher on the host of the endpoint runs the
/// coordinators of launchers and of processes.
class NodeGroup {
 public:
  /// Waits until the launchers of all hosts are connected. Throws Error (io) after the join
  /// timeout, naming the missing ones, or when it is stopped.
  static std::unique_ptr<NodeGroup> rendezvous(const LaunchOptions& options,
                                               std::stop_token stop = {});

  virtual ~NodeGroup() = default;
  virtual const Place& place() const = 0;

  /// Reports a failed process of this host to the other processes at once, before their connections
  /// time out.
  virtual void report_lost(int rank, const std::string& reason) = 0;

  /// Sends a failure to the launchers of the other hosts. The first failure that they receive ends
  /// their processes.
  virtual void announce(const Failure& failure) = 0;
  /// Announces that this host is ending its processes after a failure, so that others wait for it.
  virtual void announce_ending() = 0;
  /// Whether each other host has announced that its processes are ending or have ended.
  virtual bool all_are_ending() const = 0;
  /// Readable when take_failures() would return a failure; -1 if there never is one.
  virtual int descriptor() const = 0;
  /// The failures that other launchers have announced, and lost launchers.
  virtual std::vector<Failure> take_failures() = 0;

  /// Announces that all processes of this host have ended. The descriptor becomes readable when
  /// `all_done` changes.
  virtual void announce_done() = 0;
  virtual bool all_done() const = 0;
};

/// The name of a job with a unique suffix, since jobs may have the same name (torchrun's default is
/// "none").
std::string unique_run_id(const std::string& run_id);

/// A free port of this host.
std::uint16_t free_port();

}  // namespace troupe
