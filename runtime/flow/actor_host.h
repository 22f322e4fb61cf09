#pragma once
// Inside the runtime: the CAF actors that carry a graph's actors, and what they and the one that
// watches over them (watch.h) say to each other. CAF is named in seven files only: here, in
// caf_base.h and watch.h, and in run.cpp, host.cpp, supervisor.cpp and orders.cpp.

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/flow/bridge.h"
#include "runtime/flow/caf_base.h"
#include "runtime/flow/graph.h"
#include "runtime/flow/run.h"
#include "runtime/flow/run_messages.h"
#include "runtime/flow/runtime_access.h"

namespace troupe::flow {

using Clock = std::chrono::steady_clock;

/// A life of an actor, as the others know it.
struct ActorAddress {
  caf::actor actor;  ///< null when it lives in another process
  std::uint32_t incarnation = 0;
};

// What hosts and supervisor say to each other. Wrapped, so that CAF copies a handle at most.
struct Delivery {
  Packet packet;
};
struct ReturnedCredit {
  Credit credit;
};
struct Wire {  ///< begins a life
  std::shared_ptr<const std::vector<ActorAddress>> peers;
  std::uint32_t incarnation = 0;
};
struct Replaced {  ///< a neighbour has a new life
  std::size_t actor = 0;
  ActorAddress peer;
};
struct PostedWork {
  Post work;
};
struct Resume {};
struct Stop {};

struct VoteNote {
  std::size_t actor = 0;
  std::uint32_t incarnation = 0;
  std::uint32_t step = 0;
  CommittedState state;
};
struct FailureNote {
  std::size_t actor = 0;
  std::uint32_t incarnation = 0;
  std::string cause;
  std::optional<Error> lasting;  ///< set where a replacement would only meet it again
};
struct EventNote {
  std::size_t actor = 0;
  RuntimeAccess::Effects effects;  ///< events, accepts_snapshot, finished
};
struct StopRequested {};
/// A while has passed, in which no actor of this process did anything if `idle`.
struct CheckProgress {
  bool idle = false;
};
struct Deadlocked {};  ///< no message is on its way, and the run has not ended
/// From another process.
struct RemoteRunMessage {
  std::uint32_t from = 0;
  RunMessage note;
};
struct LostProcess {
  std::uint32_t process = 0;
  Error reason;
};
struct FinalReport {
  std::size_t actor = 0;
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
  explicit Directory(std::size_t actors) : lives_(actors) {}
  void set(std::size_t actor, ActorAddress peer) {
    const std::lock_guard lock(mutex_);
    lives_[actor] = std::move(peer);
  }
  ActorAddress get(std::size_t actor) const {
    const std::lock_guard lock(mutex_);
    return lives_[actor];
  }
  std::vector<ActorAddress> all() const {
    const std::lock_guard lock(mutex_);
    return lives_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<ActorAddress> lives_;
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
  std::vector<bool> sends_away = {};  ///< by actor: lives here and sends to another process
  caf::actor yielder = {};            ///< set before any host begins
  std::atomic<int> at_work = 0;       ///< threads in act() of one of the graph's actors
};

/// One life of a graph's actor.
struct HostedActor {
  std::shared_ptr<Shared> shared;
  std::size_t actor = 0;
  std::unique_ptr<Actor> core;
  caf::actor supervisor;
  std::vector<ActorAddress> peers;
  std::uint32_t incarnation = 0;
  bool started = false;
  bool yielding = false;
  ActorReport report;
  std::vector<TraceEvent> trace;
  Clock::time_point since;
  Waiting waiting = Waiting::other;
};

caf::behavior host_actor(CafActor<HostedActor>* self, std::shared_ptr<Shared> shared,
                         std::size_t actor, const std::shared_ptr<std::unique_ptr<Actor>>& core,
                         caf::actor supervisor);

/// Sends each Resume back to whoever sent it. Meanwhile others have the sender's thread: an actor
/// that sends a Resume to itself would find it in its mailbox and go on.
caf::behavior yield_actor(CafBase* self);

}  // namespace troupe::flow

#define TROUPE_LOCAL_MESSAGE(type) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::flow::type)
TROUPE_LOCAL_MESSAGE(Delivery)
TROUPE_LOCAL_MESSAGE(ReturnedCredit)
TROUPE_LOCAL_MESSAGE(Wire)
TROUPE_LOCAL_MESSAGE(Replaced)
TROUPE_LOCAL_MESSAGE(PostedWork)
TROUPE_LOCAL_MESSAGE(Resume)
TROUPE_LOCAL_MESSAGE(Stop)
TROUPE_LOCAL_MESSAGE(VoteNote)
TROUPE_LOCAL_MESSAGE(FailureNote)
TROUPE_LOCAL_MESSAGE(EventNote)
TROUPE_LOCAL_MESSAGE(StopRequested)
TROUPE_LOCAL_MESSAGE(CheckProgress)
TROUPE_LOCAL_MESSAGE(Deadlocked)
TROUPE_LOCAL_MESSAGE(RemoteRunMessage)
TROUPE_LOCAL_MESSAGE(LostProcess)
TROUPE_LOCAL_MESSAGE(FinalReport)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::Commit)
#undef TROUPE_LOCAL_MESSAGE
