#pragma once
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>

#include "apps/launch/launcher_rendezvous.h"
#include "apps/launch/node_group.h"
#include "runtime/fd.h"

namespace troupe {

/// The launchers of several hosts. They form a world with one member for each host, beside the
/// world of the processes. The launcher on the host of the endpoint runs the coordinators of both.
class SeveralNodes : public NodeGroup {
 public:
  /// As NodeGroup::rendezvous.
  SeveralNodes(const LaunchOptions& options, std::stop_token stop);
  ~SeveralNodes() override;

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
  void agree(const LaunchOptions& options);
  void host_processes_of(const LaunchOptions& options);
  std::string get(const std::string& key);
  void put(const std::string& key, const std::string& value);
  void on_message(int from, const std::string& body);
  void on_lost(const PeerLost& lost);
  void send_to_all(const std::string& body);

  LauncherRendezvous rendezvous_;
  std::unique_ptr<Coordinator> processes_;  // only on the host of the endpoint
  Place place_;
  int rendezvous_node_ = 0;  // which runs the coordinators
  Fd event_;

  mutable std::mutex mutex_;  // for data from the member's thread
  std::vector<Failure> failures_;
  std::set<int> ending_;  // nodes that know of a failure
  std::set<int> done_;    // nodes whose processes have ended, or that are lost
};

}  // namespace troupe
