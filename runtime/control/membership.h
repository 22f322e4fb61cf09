#pragma once
// How a process becomes a member of its world, with any launcher.

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

/// A process's membership of a world. With TROUPE_COORDINATOR=tcp://HOST:PORT a launcher runs the
/// coordinator; else rank 0 runs it, and publishes its endpoint in the job file. The job's key is
/// in TROUPE_JOB_KEY or in the job file.
class Membership {
 public:
  /// Waits until all processes have joined; the errors are those of Member::join.
  static Result<std::unique_ptr<Membership>> enter(const World& world,
                                                   const Environment& environment,
                                                   const MembershipOptions& options = {});
  /// Without leave() before it, this process counts as lost, and so does a coordinator in it. It
  /// removes a job file that is not needed any more: of the coordinator in this process, or of one
  /// that ended without removing it; and a file that names no coordinator, if this process made it
  /// or rank 0 did not join.
  ~Membership();

  Member& member() { return *member_; }

  /// Member::leave(). The process of the coordinator then waits until the others have left too, for
  /// at most one timeout.
  Status leave();

  /// Ends without leave(). The process of the coordinator waits, for at most one timeout, until the
  /// others have ended too: they may still need the coordinator.
  void abandon();

 private:
  Membership() = default;
  JobKey take_key();
  Status keep_coordinator(const World& world, const JobKey& key, const MembershipOptions& options);
  void part();
  void remove_file() const;

  std::chrono::milliseconds timeout_{};
  std::optional<JobFile> file_;      ///< with the key, or the endpoint of the coordinator
  std::optional<JobKey> unclaimed_;  ///< key of a file to remove if it names no coordinator
  std::string lost_coordinator_;
  bool left_ = false;
  std::shared_ptr<MessagingContext> messaging_;  ///< of both
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<Member> member_;
};

/// The address of this host that the other hosts of the world can reach.
std::string address_for_world(const World& world, const std::string& interface);

}  // namespace troupe
