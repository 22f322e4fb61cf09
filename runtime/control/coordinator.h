#pragma once
// Where the processes of a job find each other, and who decides which of them are still there.

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
  /// A launcher does not know the options of what it starts: the members say what their timeout is.
  bool timeout_of_members = false;
  /// The members are launchers, one a host: what they are told names their flags.
  bool of_launchers = false;
  /// Called on the coordinator's thread for each process that is turned away, with the reason, and
  /// for each connection with another key.
  std::function<void(const std::string& reason)> on_refused;
  /// The rank that a member in this process will ask for. It is kept for it, whoever comes before.
  std::optional<int> own_rank;
  /// For coordinator and members in one process; by default it has its own.
  std::shared_ptr<MessagingContext> messaging;
};

/// Holds a world together: waits until it is whole, gives ranks, keeps the store and the barriers,
/// and tells all members who is lost. One a job, in the launcher or beside rank 0.
///
/// A member counts as lost when its connection breaks and its port refuses a new one (its process
/// ended), or when it has not been heard of for the timeout. Once every member of a world has left
/// or is lost, or processes of a later restart come, the next world forms under the next generation
/// at the same place; ranks that were chosen here stay with their host and local rank.
class Coordinator {
 public:
  /// Listening when this returns. Error{io} when the address or port cannot be had.
  static Result<std::unique_ptr<Coordinator>> start(const CoordinatorOptions& options);

  /// Stops at once: members that are still there see their coordinator lost.
  ~Coordinator();

  const std::string& endpoint() const;  ///< tcp://ADDRESS:PORT

  /// Tells all members at once what only a parent can know: "killed by signal 9". From any thread;
  /// nothing happens if the rank is not there any more.
  void report_lost(int rank, std::string reason);

  /// Waits until every member of a world that was whole has left or is lost.
  Status wait_for_end(std::chrono::milliseconds timeout);

  ControlCounters counters() const;

 private:
  class Implementation;
  explicit Coordinator(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace troupe
