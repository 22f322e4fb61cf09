#pragma once
// Coordinators and members on loopback, for the tests of the control plane.

#include <gmock/gmock.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/control/coordinator.h"
#include "runtime/control/member.h"

namespace troupe::control_test {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Long enough never to matter on a busy machine.
constexpr seconds patience{60};

inline CoordinatorOptions coordinator_options(int size, const JobKey& key,
                                              milliseconds timeout = patience) {
  CoordinatorOptions options;
  options.key = key;
  options.run = "test";
  options.size = size;
  options.timeout = timeout;
  return options;
}

inline MemberOptions member_options(const Coordinator& coordinator, std::optional<int> rank,
                                    int size, const JobKey& key, milliseconds timeout = patience) {
  MemberOptions options;
  options.key = key;
  options.run = "test";
  options.coordinator = coordinator.endpoint();
  options.rank = rank;
  options.size = size;
  options.timeout = timeout;
  return options;
}

/// Joins with each of the options at the same time, a thread each.
inline std::vector<Result<std::unique_ptr<Member>>> join_all(
    const std::vector<MemberOptions>& all) {
  std::vector<std::optional<Result<std::unique_ptr<Member>>>> results(all.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < all.size(); ++i)
      threads.emplace_back([&, i] { results[i].emplace(Member::join(all[i])); });
  }
  std::vector<Result<std::unique_ptr<Member>>> joined;
  for (auto& result : results) joined.push_back(std::move(*result));
  return joined;
}

/// A coordinator and `size` members that have joined it.
struct TestWorld {
  JobKey key = JobKey::generate();
  std::unique_ptr<Coordinator> coordinator;
  std::vector<std::unique_ptr<Member>> members;

  explicit TestWorld(int size, milliseconds timeout = patience) {
    coordinator = std::move(Coordinator::start(coordinator_options(size, key, timeout)).value());
    std::vector<MemberOptions> options;
    for (int rank = 0; rank < size; ++rank)
      options.push_back(member_options(*coordinator, rank, size, key, timeout));
    for (auto& joined : join_all(options)) members.push_back(std::move(joined.value()));
  }
};

/// Has a member answer each message with the same.
inline void let_echo(Member& member) {
  member.open([&](int from, std::string body) { member.send(from, std::move(body)); },
              [](const PeerLost&) {});
}

/// What a member's callbacks received. It outlives the member: declare it first.
class Inbox {
 public:
  void listen(Member& member) {
    member.open(
        [this](int from, std::string body) {
          const std::lock_guard lock(mutex_);
          messages_.emplace_back(from, std::move(body));
          changed_.notify_all();
        },
        [this](const PeerLost& lost) {
          const std::lock_guard lock(mutex_);
          losses_.push_back(lost);
          changed_.notify_all();
        });
  }

  bool wait_messages(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return messages_.size() >= count; });
  }
  bool wait_losses(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return losses_.size() >= count; });
  }
  std::vector<std::pair<int, std::string>> messages() const {
    const std::lock_guard lock(mutex_);
    return messages_;
  }
  std::vector<PeerLost> losses() const {
    const std::lock_guard lock(mutex_);
    return losses_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<int, std::string>> messages_;
  std::vector<PeerLost> losses_;
};

}  // namespace troupe::control_test
