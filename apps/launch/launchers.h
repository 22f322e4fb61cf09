#pragma once
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>

#include "apps/launch/node_group.h"
#include "runtime/control/coordinator.h"
#include "runtime/control/job_file.h"
#include "runtime/control/member.h"
#include "runtime/control/messaging.h"
#include "runtime/fd.h"

namespace troupe {

/// The launchers of several hosts: a world of their own, one member a host, beside the world of the
/// processes. The launcher that the endpoint leads to holds both together.
class Launchers : public NodeGroup {
 public:
  /// As NodeGroup::meet.
  Launchers(const LaunchOptions& options, std::stop_token stop);
  ~Launchers() override;

  const Place& place() const override { return place_; }
  void report_lost(int rank, const std::string& reason) override;
  void tell(const Failure& failure) override;
  void ending() override;
  bool all_are_ending() const override;
  int descriptor() const override { return news_.get(); }
  std::vector<Failure> hear() override;
  void done() override;
  bool all_done() const override;

 private:
  using Clock = std::chrono::steady_clock;

  void take_key(JobFile file);
  void forget_key();
  void host_meeting(const LaunchOptions& options, Clock::time_point end);
  Status try_to_host(const LaunchOptions& options);
  void join(const LaunchOptions& options, Clock::time_point end);
  Error not_met(const LaunchOptions& options, const Error& why) const;
  void agree(const LaunchOptions& options);
  void host_processes_of(const LaunchOptions& options);
  std::string get(const std::string& key);
  void put(const std::string& key, const std::string& value);
  void on_message(int from, const std::string& body);
  void on_lost(const PeerLost& lost);
  void tell_all(const std::string& body);

  std::stop_token stop_;
  std::chrono::milliseconds attempt_;
  std::optional<JobFile> file_;  // that the key is from, unless TROUPE_JOB_KEY has it
  bool removes_key_ = false;     // made it, and nobody else hosts the meeting; or hosts it
  JobKey key_;
  std::string own_address_;  // of this host, as others reach it
  std::string not_hosted_;   // why the meeting is not here, though the endpoint leads here
  std::shared_ptr<MessagingContext> messaging_ = new_messaging_context();
  std::set<std::string> refused_;  // reasons that were told, on the meeting's thread
  std::unique_ptr<Coordinator> meeting_, processes_;  // only where the endpoint leads to this host
  std::unique_ptr<Member> member_;
  Place place_;
  int meeting_node_ = 0;  // which holds the coordinators
  Fd news_;

  mutable std::mutex mutex_;  // what the member's thread leaves for the launcher's
  std::vector<Failure> heard_;
  std::set<int> ending_;  // nodes that know of a failure
  std::set<int> done_;    // nodes whose processes have ended, or that are lost
};

}  // namespace troupe
