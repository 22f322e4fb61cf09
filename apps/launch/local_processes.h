#pragma once
#include <poll.h>

#include <vector>

#include "apps/launch/child.h"
#include "apps/launch/guard.h"
#include "apps/launch/job_folder.h"
#include "apps/launch/node_group.h"
#include "apps/launch/outcome.h"
#include "apps/launch/output.h"
#include "runtime/world/cores.h"

namespace troupe {

/// The job's processes on this host, with their cores and their output.
class LocalProcesses {
 public:
  LocalProcesses(const LaunchOptions& options, const Place& place, Guard& guard)
      : options_(options), place_(place), guard_(guard), folder_(options) {}

  /// Starts all of them. If one cannot be started, ends the others and throws Error.
  void start();
  int running() const { return running_; }

  /// Appends an entry for each process; those of ended processes are ignored by poll.
  void append_to(std::vector<pollfd>& ready) const;
  /// Reaps the process of this index. Call it when its entry is ready.
  Failure reap(std::size_t index);
  /// Reaps ended children of processes of this host, which the launcher has adopted.
  void reap_adopted_children() const;

  /// Sends a signal to each running process alone.
  void signal(int number) const;
  /// Sends a signal to the process group of each running process. A stopped one gets SIGTERM too.
  void signal_groups(int number) const;

  /// Ends all descendants that are left, and copies the rest of their output.
  void finish();
  const JobFolder& folder() const { return folder_; }

 private:
  struct Process {
    Child child;
    int local_rank = 0;
    bool running = true;
  };

  void start(int local_rank);
  Fd output_of(int local_rank, Outputs output);
  Failure failure_of(const Process& process, const Ending& ending) const;

  const LaunchOptions& options_;
  const Place& place_;
  Guard& guard_;
  JobFolder folder_;
  OutputPump pump_;
  std::vector<Cpu> cpus_ = usable_cpus();
  std::vector<Process> processes_;
  int running_ = 0;
};

}  // namespace troupe
