#pragma once
// Inside the runtime: the CAF actors that carry a graph's actors, and what they and the one that
// watches over them (watch.h) say to each other. CAF is named in seven files only: here, in
// caf_base.h and watch.h, and in run.cpp, shell.cpp, watch.cpp and orders.cpp.

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/flow/bridge.h"
#include "runtime/flow/caf_base.h"
#include "runtime/flow/graph.h"
#include "runtime/flow/inside.h"
#include "runtime/flow/notes.h"
#include "runtime/flow/run.h"

namespace troupe::shell {

using Clock = std::chrono::steady_clock;

/// A life of an actor, as the others know it.
struct Peer {
  caf::actor actor;  ///< null when it lives in another process
  std::uint32_t generation = 0;
};

// What shells and watch say to each other. Wrapped, so that CAF copies a handle at most.
struct Delivery {
  Packet packet;
};
struct CreditNote {
  Credit credit;
};
struct Wire {  ///< begins a life
  std::shared_ptr<const std::vector<Peer>> peers;
  std::uint32_t generation = 0;
};
struct Replaced {  ///< a neighbour has a new life
  std::size_t node = 0;
  Peer peer;
};
struct PostNote {
  Post work;
};
struct Tick {};
struct Stop {};

struct VoteNote {
  std::size_t node = 0;
  std::uint32_t generation = 0;
  std::uint32_t step = 0;
  CommittedState state;
};
struct FailureNote {
  std::size_t node = 0;
  std::uint32_t generation = 0;
  std::string cause;
  std::optional<Error> lasting;  ///< set where a replacement would only meet it again
};
struct EventNote {
  std::size_t node = 0;
  Inside::Effects effects;  ///< events, accepts_snapshot, finished
};
struct StopRequest {};
/// A while has passed, in which no actor of this process did anything if `idle`.
struct LookAtVotes {
  bool idle = false;
};
struct StandStill {};  ///< no message is on its way, and the run has not ended
/// From another process.
struct RemoteNote {
  std::uint32_t from = 0;
  Note note;
};
struct LostNote {
  std::uint32_t process = 0;
  Error reason;
};
struct LifeReport {
  std::size_t node = 0;
  ActorReport report;
  std::vector<TraceEvent> trace;
};

/// Counts what waits in an actor's mailbox; outlives its lives.
struct Gauge {
  std::atomic<std::size_t> waiting{0};
  std::atomic<std::size_t> peak{0};
  std::atomic<std::size_t> handled{0};
  std::atomic<bool> acting{false};  ///< a life handles a message now
  void add() {
    const std::size_t now = waiting.fetch_add(1, std::memory_order_relaxed) + 1;
    std::size_t seen = peak.load(std::memory_order_relaxed);
    while (seen < now && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
    }
  }
  void remove() {
    handled.store(handled.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    // What was sent to a dead actor was added but is never handled: zero is a floor.
    std::size_t now = waiting.load(std::memory_order_relaxed);
    while (now > 0 && !waiting.compare_exchange_weak(now, now - 1, std::memory_order_relaxed)) {
    }
  }
};

/// Who lives where, for what comes from other processes.
class Directory {
 public:
  explicit Directory(std::size_t nodes) : lives_(nodes) {}
  void set(std::size_t node, Peer peer) {
    const std::lock_guard lock(mutex_);
    lives_[node] = std::move(peer);
  }
  Peer get(std::size_t node) const {
    const std::lock_guard lock(mutex_);
    return lives_[node];
  }
  std::vector<Peer> all() const {
    const std::lock_guard lock(mutex_);
    return lives_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Peer> lives_;
};

/// What all actors of a run share; constant but for directory and atomics.
struct Shared {
  const Graph& graph;
  const RunOptions& options;
  Placement placement;
  std::uint64_t run_id = 0;
  Clock::time_point start;
  std::vector<Gauge> gauges;
  Directory directory;
  std::unique_ptr<std::atomic<bool>[]> faults_fired;
  std::function<void(Result<RunReport>)> done;
  std::vector<bool> sends_away = {};  ///< by node: lives here and sends to another process
  caf::actor queue_end = {};          ///< set before any shell begins
  std::atomic<int> at_work = 0;       ///< threads in act() of one of the graph's actors
};

/// One life of a graph's actor.
struct Life {
  std::shared_ptr<Shared> shared;
  std::size_t node = 0;
  std::unique_ptr<Actor> core;
  caf::actor watch;
  std::vector<Peer> peers;
  std::uint32_t generation = 0;
  bool started = false;
  bool ticking = false;
  ActorReport report;
  std::vector<TraceEvent> trace;
  Clock::time_point since;
  Waiting waiting = Waiting::other;
};

caf::behavior shell_actor(CafActor<Life>* self, std::shared_ptr<Shared> shared, std::size_t node,
                          const std::shared_ptr<std::unique_ptr<Actor>>& core, caf::actor watch);

/// Sends each Tick back to whoever sent it. Meanwhile others have the sender's thread: an actor
/// that sends a Tick to itself would find it in its mailbox and go on.
caf::behavior queue_end_actor(CafBase* self);

}  // namespace troupe::shell

#define TROUPE_LOCAL_MESSAGE(type) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::shell::type)
TROUPE_LOCAL_MESSAGE(Delivery)
TROUPE_LOCAL_MESSAGE(CreditNote)
TROUPE_LOCAL_MESSAGE(Wire)
TROUPE_LOCAL_MESSAGE(Replaced)
TROUPE_LOCAL_MESSAGE(PostNote)
TROUPE_LOCAL_MESSAGE(Tick)
TROUPE_LOCAL_MESSAGE(Stop)
TROUPE_LOCAL_MESSAGE(VoteNote)
TROUPE_LOCAL_MESSAGE(FailureNote)
TROUPE_LOCAL_MESSAGE(EventNote)
TROUPE_LOCAL_MESSAGE(StopRequest)
TROUPE_LOCAL_MESSAGE(LookAtVotes)
TROUPE_LOCAL_MESSAGE(StandStill)
TROUPE_LOCAL_MESSAGE(RemoteNote)
TROUPE_LOCAL_MESSAGE(LostNote)
TROUPE_LOCAL_MESSAGE(LifeReport)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::Commit)
#undef TROUPE_LOCAL_MESSAGE
