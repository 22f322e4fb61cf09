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

/// The launchers of several hosts. They form a world with one member for each host, beside the
/// world of the processes. The launcher on the host of the endpoint runs the coordinators of both.
class Launchers : public NodeGroup {
 public:
  /// As NodeGroup::rendezvous.
  Launchers(const LaunchOptions& options, std::stop_token stop);
  ~Launchers() override;

  const Place& place() const override { return place_; }
  void report_lost(int rank, const std::string& reason) override;
  void announce(const Failure& failure) override;
  void announce_ending() override;
  bool all_are_ending() const override;
  int descriptor() const override { return event_.get(); }
  std::vector<Failure> take_failures() override;
  void announce_done() override;
  bool all_done() const override;

 private:
  using Clock = std::chrono::steady_clock;

  void take_key(JobFile file);
  void forget_key();
  void host_rendezvous(const LaunchOptions& options, Clock::time_point end);
  Status try_to_host(const LaunchOptions& options);
  void join(const LaunchOptions& options, Clock::time_point end);
  Error not_connected(const LaunchOptions& options, const Error& why) const;
  void agree(const LaunchOptions& options);
  void host_processes_of(const LaunchOptions& options);
  std::string get(const std::string& key);
  void put(const std::string& key, const std::string& value);
  void on_message(int from, const std::string& body);
  void on_lost(const PeerLost& lost);
  void send_to_all(const std::string& body);

  std::stop_token stop_;
  std::chrono::milliseconds attempt_;
  std::optional<JobFile> file_;  // that the key is from, unless TROUPE_JOB_KEY has it
  bool removes_key_ = false;     // hosts the rendezvous, or made the key and no launcher hosts it
  JobKey key_;
  std::string own_address_;  // of this host, as others reach it
  std::string not_hosted_;   // why the rendezvous is not here, though the endpoint is this host
  std::shared_ptr<MessagingContext> messaging_ = new_messaging_context();
  std::set<std::string> refused_;  // reasons that were printed, on the coordinator's thread
  std::unique_ptr<Coordinator> rendezvous_, processes_;  // only on the host of the endpoint
  std::unique_ptr<Member> member_;
  Place place_;
  int rendezvous_node_ = 0;  // which runs the coordinators
  Fd event_;

  mutable std::mutex mutex_;  // for data from the member's thread
  std::vector<Failure> failures_;
  std::set<int> ending_;  // nodes that know of a failure
  std::set<int> done_;    // nodes whose processes have ended, or that are lost
};

}  // namespace troupe
