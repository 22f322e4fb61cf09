#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>

#include "apps/launch/launch_options.h"
#include "runtime/control/coordinator.h"
#include "runtime/control/job_file.h"
#include "runtime/control/member.h"
#include "runtime/control/messaging.h"

namespace troupe {

/// How the launchers of several hosts form a world, with one member for each host. The launcher on
/// the host of the endpoint runs its coordinator.
class LauncherRendezvous {
 public:
  /// Connects. Throws Error (io) after the join timeout, naming the missing hosts, or when it is
  /// stopped.
  LauncherRendezvous(const LaunchOptions& options, std::stop_token stop);
  /// Removes the job's key file if this launcher is responsible for it: the next job of this name
  /// and endpoint makes a new key.
  ~LauncherRendezvous();
  LauncherRendezvous(const LauncherRendezvous&) = delete;
  LauncherRendezvous& operator=(const LauncherRendezvous&) = delete;

  Member& member() { return *member_; }
  const JobKey& key() const { return key_; }
  /// Of this host, as others reach it.
  const std::string& address() const { return address_; }
  bool hosts_coordinator() const { return coordinator_ != nullptr; }
  const std::shared_ptr<MessagingContext>& messaging() const { return messaging_; }
  /// How long launchers wait for each other at a time, and for a heartbeat.
  std::chrono::milliseconds patience() const { return patience_; }

  /// Leaves the world; without it, this launcher counts as lost. Call it once, and no function of
  /// the member after it. If the processes of all hosts have ended, the coordinator waits until all
  /// launchers have left.
  void leave(bool all_have_ended);

 private:
  using Clock = std::chrono::steady_clock;

  void take_key(JobFile file);
  void forget_key();
  void host(Clock::time_point end);
  Status try_to_host();
  void join(const std::string& host, Clock::time_point end);
  Error not_connected(const Error& why) const;

  const LaunchOptions& options_;
  std::stop_token stop_;
  std::chrono::milliseconds patience_;
  std::optional<JobFile> file_;  // that the key is from, unless TROUPE_JOB_KEY has it
  bool removes_key_ = false;     // hosts the rendezvous, or made the key and no launcher hosts it
  JobKey key_;
  std::string address_;
  std::string not_hosted_;  // why the coordinator is not here, though the endpoint is this host
  std::shared_ptr<MessagingContext> messaging_ = new_messaging_context();
  std::set<std::string> refused_;  // reasons that were printed, on the coordinator's thread
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<Member> member_;
};

}  // namespace troupe
