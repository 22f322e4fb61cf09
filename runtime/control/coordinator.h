#pragma once
// The coordinator of a job: rendezvous, membership, store and barriers.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/control/counters.h"
#include "runtime/control/job_key.h"
#include "runtime/control/messaging.h"
#include "runtime/error.h"

namespace troupe {

struct CoordinatorOptions {
  JobKey key;
  std::string run;                            ///< the job's name; members of another are refused
  int size = 1;                               ///< of the world
  std::string address = "127.0.0.1";          ///< of one interface: interface.h finds it
  int port = 0;                               ///< 0: any free one
  std::chrono::milliseconds timeout{30'000};  ///< all other times derive from it
  /// A launcher does not know the options of the processes that it starts: the coordinator takes
  /// the timeout that the members send.
  bool timeout_of_members = false;
  /// The members are launchers, one for each host: messages name hosts and launcher settings.
  bool of_launchers = false;
  /// Called on the coordinator's thread for each process that it refuses, with the reason, and for
  /// each connection with a different key.
  std::function<void(const std::string& reason)> on_refused;
  /// The rank that a member in this process will request. No other member gets it.
  std::optional<int> own_rank;
  /// Shared by the coordinator and members of one process; by default each has its own.
  std::shared_ptr<MessagingContext> messaging;
};

/// Waits until all members of a world have joined, assigns ranks, keeps the store and the barriers,
/// and announces lost members to the others. There is one in a job, in the launcher or in rank 0.
///
/// A member counts as lost when its connection breaks and its port refuses a new one (its process
/// ended), or when it has sent nothing for the timeout. Once every member of a world has left or is
/// lost, or processes of a later restart join, the next world forms with the next generation at the
/// same endpoint. Each pair of host and local rank keeps the rank that the coordinator has assigned
/// to it.
class Coordinator {
 public:
  /// It listens when this returns. Error{io} if the address or port is not available.
  static Result<std::unique_ptr<Coordinator>> start(const CoordinatorOptions& options);

  /// Stops at once: members that have not left lose their coordinator.
  ~Coordinator();

  const std::string& endpoint() const;  ///< tcp://ADDRESS:PORT

  /// Announces a loss that the caller knows of, such as "killed by signal 9" from a parent process.
  /// Thread-safe; does nothing if the rank has left or is lost.
  void report_lost(int rank, std::string reason);

  /// Waits until every member of a complete world has left or is lost.
  Status wait_for_end(std::chrono::milliseconds timeout);

  ControlCounters counters() const;

 private:
  class Implementation;
  explicit Coordinator(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace troupe
