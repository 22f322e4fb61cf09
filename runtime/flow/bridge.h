#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/flow/graph.h"
#include "runtime/flow/run_messages.h"

namespace troupe {

/// Which process runs which actor, seen from one of them. Process 0 leads: it counts the votes and
/// decides what becomes of the dead. With one process all actors live in it. Who wants to know
/// where an actor lives asks this, not the graph, which only says where it was wanted.
class Placement {
 public:
  /// Throws Error{bad_graph} for actors placed beyond the last process, and for edges between
  /// processes whose messages cannot leave one (runtime/flow/payload.h).
  Placement(const Graph& graph, std::uint32_t here, std::uint32_t processes);

  std::uint32_t here() const { return here_; }
  std::uint32_t processes() const { return processes_; }
  std::uint32_t of(std::size_t actor) const { return process_[actor]; }
  bool is_here(std::size_t actor) const { return of(actor) == here_; }
  bool leads() const { return here_ == 0; }

 private:
  std::vector<std::uint32_t> process_;  ///< by actor
  std::uint32_t here_, processes_;
};

/// A message for an actor of another process.
struct RemotePacket {
  std::uint32_t actor = 0;        ///< who gets it
  std::uint32_t incarnation = 0;  ///< which life of it is meant; for others it is dropped
  Packet packet;
};
struct RemoteCredit {
  std::uint32_t actor = 0;
  Credit credit;
};

/// Hears what other processes send. Its functions are called one at a time for each sender, on
/// threads of the bridge or of who calls Bridge::catch_up, and never block.
class BridgeListener {
 public:
  virtual ~BridgeListener() = default;
  virtual void on_packet(std::uint32_t from, RemotePacket packet) = 0;
  virtual void on_credit(std::uint32_t from, RemoteCredit credit) = 0;
  virtual void on_run_message(std::uint32_t from, RunMessage note) = 0;
  /// The process is gone, or cannot be reached any more. The last call about it.
  virtual void on_lost(std::uint32_t process, const Error& reason) = 0;
};

/// Carries a run's messages between its processes. What one process sends to another arrives
/// exactly once and in the order in which it was sent, whatever its kind, or the process is
/// reported lost. (When any is lost, how the run ends, by EndRun, RunFailed or ProcessEnded, may
/// arrive twice.) Sending is for any thread and never blocks for longer than a copy takes; an
/// edge's slots bound what is under way.
class Bridge {
 public:
  virtual ~Bridge() = default;
  /// Begins to deliver; what came before has waited.
  virtual void open(std::shared_ptr<BridgeListener> listener) = 0;
  /// No delivery begins after this has returned; what is sent later may go nowhere.
  virtual void close() = 0;
  virtual void send(std::uint32_t to, RemotePacket packet) = 0;
  virtual void send(std::uint32_t to, RemoteCredit credit) = 0;
  virtual void send(std::uint32_t to, RunMessage note) = 0;

  /// All threads of this process's actors are at work: what arrives before the next `catch_up` need
  /// not be delivered earlier. Threads of the bridge that have nothing to do then do not take the
  /// processor from the work. This and `catch_up` are for any thread, also at the same time; who
  /// let messages wait although a thread has become free meanwhile must see to that itself.
  virtual void let_wait() {}
  /// Delivers what has arrived, if it was let wait; from now on, what arrives is delivered at once.
  virtual void catch_up() {}
};

}  // namespace troupe
