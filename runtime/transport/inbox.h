#pragma once
// Inside the transports: matches arrived tensors with the receives that wait for them.

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/error.h"

namespace troupe::transport {

/// Arrivals and waiters of one peer and tag match, in their order.
struct InboxKey {
  int peer = 0;
  std::uint64_t tag = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): a false positive of clang-tidy
  auto operator<=>(const InboxKey&) const = default;
};

/// Matches arrivals with waiters. Thread-safe. The thread that adds the second of the two calls the
/// waiter, without the lock. Keys without content take no memory.
template <class Arrival>
class Inbox {
 public:
  class Waiter {
   public:
    virtual ~Waiter() = default;
    virtual void arrived(Arrival arrival) = 0;
    virtual void failed(const Error& error) = 0;
  };

  void arrive(const InboxKey& key, Arrival arrival) {
    std::shared_ptr<Waiter> waiter;
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return;
      Cell& cell = cells_[key];
      if (cell.waiters.empty()) {
        cell.arrivals.push_back(std::move(arrival));
        return;
      }
      waiter = std::move(cell.waiters.front());
      cell.waiters.pop_front();
      if (cell.waiters.empty()) cells_.erase(key);
    }
    waiter->arrived(std::move(arrival));
  }

  void expect(const InboxKey& key, std::shared_ptr<Waiter> waiter) {
    std::optional<Arrival> arrival;
    std::optional<Error> error;
    {
      const std::lock_guard lock(mutex_);
      const auto found = cells_.find(key);
      if (closed_) {
        error = closed_;
      } else if (found != cells_.end() && !found->second.arrivals.empty()) {
        arrival = std::move(found->second.arrivals.front());
        found->second.arrivals.pop_front();
        if (found->second.arrivals.empty()) cells_.erase(found);
      } else if (const auto gone = left_.find(key.peer); gone != left_.end()) {
        error = gone->second;
      } else {
        cells_[key].waiters.push_back(std::move(waiter));
        return;
      }
    }
    if (arrival)
      waiter->arrived(std::move(*arrival));
    else
      waiter->failed(*error);
  }

  /// This peer sends nothing more. Waiters fail; tensors that have arrived can still be taken.
  void leave(int peer, const Error& error) {
    end(
        error, [&](const InboxKey& key) { return key.peer == peer; },
        [&] { left_.emplace(peer, error); });
  }

  /// Fails all waiters, current and later, and drops what has arrived.
  void close(const Error& error) {
    end(
        error, [](const InboxKey&) { return true; },
        [&] {
          if (!closed_) closed_ = error;
        });
    std::map<InboxKey, Cell> dropped;
    const std::lock_guard lock(mutex_);
    dropped.swap(cells_);
  }

 private:
  struct Cell {  ///< at most one of the two has content
    std::deque<Arrival> arrivals;
    std::deque<std::shared_ptr<Waiter>> waiters;
  };

  template <class Concerned, class Remember>
  void end(const Error& error, Concerned concerned, Remember remember) {
    std::vector<std::shared_ptr<Waiter>> waiters;
    {
      const std::lock_guard lock(mutex_);
      remember();
      for (auto cell = cells_.begin(); cell != cells_.end();) {
        if (!concerned(cell->first) || cell->second.waiters.empty()) {
          ++cell;
          continue;
        }
        for (auto& waiter : cell->second.waiters) waiters.push_back(std::move(waiter));
        cell = cells_.erase(cell);
      }
    }
    for (const auto& waiter : waiters) waiter->failed(error);
  }

  std::mutex mutex_;
  std::map<InboxKey, Cell> cells_;
  std::map<int, Error> left_;
  std::optional<Error> closed_;
};

}  // namespace troupe::transport
