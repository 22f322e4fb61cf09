#pragma once
// From "who a process is" to a member of its world, whoever launched it.

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "runtime/control/coordinator.h"
#include "runtime/control/job_file.h"
#include "runtime/control/member.h"
#include "runtime/world/world.h"

namespace troupe {

struct MembershipOptions {
  std::string interface;                      ///< network interface; empty: chosen by itself
  std::chrono::milliseconds timeout{30'000};  ///< as in MemberOptions
  std::stop_token stop;                       ///< as in MemberOptions
};

/// A process's membership of a world. TROUPE_COORDINATOR=tcp://HOST:PORT says that a launcher keeps
/// the coordinator, else rank 0 does and publishes where in the job file. TROUPE_JOB_KEY is the
/// job's key, else the job file has it.
class Membership {
 public:
  /// Waits until the world is whole; the errors are those of Member::join.
  static Result<std::unique_ptr<Membership>> enter(const World& world,
                                                   const Environment& environment,
                                                   const MembershipOptions& options = {});
  /// Without leave() before it, the others see this process lost, and the coordinator if it is
  /// here. A job file that nobody needs any more goes with it: that of the coordinator kept here,
  /// or of one that has ended without removing it; and one in which no coordinator is named, where
  /// this process made it or rank 0 did not come.
  ~Membership();

  Member& member() { return *member_; }

  /// Member::leave(); the rank that keeps the coordinator then waits, for one timeout at most,
  /// until the others have left too.
  Status leave();

  /// Goes without leave(). The rank that keeps the coordinator stays, for one timeout at most,
  /// until the others have gone too: they may still have something to ask it.
  void abandon();

 private:
  Membership() = default;
  JobKey take_key();
  Status keep_coordinator(const World& world, const JobKey& key, const MembershipOptions& options);
  void part();
  void remove_file() const;

  std::chrono::milliseconds timeout_{};
  std::optional<JobFile> file_;      ///< with the key, or where the coordinator is published
  std::optional<JobKey> unclaimed_;  ///< key to remove where no coordinator is named beside it
  std::string lost_coordinator_;
  bool left_ = false;
  std::shared_ptr<MessagingContext> messaging_;  ///< of both
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<Member> member_;
};

/// The address of this host that the other hosts of the world can reach.
std::string address_for_world(const World& world, const std::string& interface);

}  // namespace troupe
