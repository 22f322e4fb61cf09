#pragma once
// Internal to the runtime: what all CAF actors of a process share in a run.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/flow/bridge.h"
#include "runtime/flow/local_messages.h"
#include "runtime/flow/run.h"

namespace troupe::flow {

using Clock = std::chrono::steady_clock;

/// Counts the messages in an actor's mailbox, over all of its incarnations.
struct MailboxGauge {
  std::atomic<std::size_t> waiting{0};
  std::atomic<std::size_t> peak{0};
  std::atomic<std::size_t> handled{0};
  std::atomic<bool> acting{false};           ///< an incarnation handles a message now
  std::atomic<bool> on_device{false};        ///< effects are held back until the device is done
  std::atomic<std::uint32_t> held{0};        ///< messages that the actor has taken and not released
  std::atomic<std::uint32_t> held_since{0};  ///< the step of the oldest
  /// Whether the actor will go on without a message from another one.
  bool busy() const { return acting || waiting > 0 || on_device; }
  void add() {
    const std::size_t now = waiting.fetch_add(1, std::memory_order_relaxed) + 1;
    std::size_t seen = peak.load(std::memory_order_relaxed);
    while (seen < now && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
    }
  }
  void remove() {
    handled.store(handled.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    // Messages to a failed actor were added but are never handled, so the count stops at zero.
    std::size_t now = waiting.load(std::memory_order_relaxed);
    while (now > 0 && !waiting.compare_exchange_weak(now, now - 1, std::memory_order_relaxed)) {
    }
  }
};

/// The address of each actor, for messages that arrive from other processes.
class Directory {
 public:
  explicit Directory(std::size_t actors) : addresses_(actors) {}
  void set(std::size_t actor, ActorAddress address) {
    const std::lock_guard lock(mutex_);
    addresses_[actor] = std::move(address);
  }
  ActorAddress get(std::size_t actor) const {
    const std::lock_guard lock(mutex_);
    return addresses_[actor];
  }
  std::vector<ActorAddress> all() const {
    const std::lock_guard lock(mutex_);
    return addresses_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<ActorAddress> addresses_;
};

/// Constant during the run, except gauges, directory, faults_fired, sent, yielder, checks, the
/// copies of posters, and stream_backends.
struct RunState {
  const Graph& graph;
  const RunOptions& options;
  Placement placement;
  Clock::time_point start;
  std::vector<MailboxGauge> gauges;
  Directory directory;
  std::unique_ptr<std::atomic<bool>[]> faults_fired;
  std::function<void(Result<RunReport>)> done;
  std::unique_ptr<std::atomic<std::uint64_t>[]> sent = {};  ///< messages that left here, by edge
  std::vector<bool> sends_away = {};   ///< by actor: lives here and sends to another process
  caf::actor yielder = {};             ///< yield_actor; set before any actor host starts
  std::atomic<std::size_t> checks{0};  ///< messages CheckProgress that the supervisor has handled
  /// Each Actor::poster() holds a copy.
  std::shared_ptr<const void> posters = std::make_shared<char>();
  /// By actor: the backend of its stream; null if it has none or lives elsewhere. Set before any
  /// actor host starts.
  std::vector<const Backend*> stream_backends = {};
};

/// The actors of this process that hold messages, oldest first: "loss has held 2 messages since
/// step 0". All of them matter only where no actor has anything to do.
std::vector<std::string> holders_of_messages(const RunState& run);

}  // namespace troupe::flow
