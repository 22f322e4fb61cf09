#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/flow/graph.h"
#include "runtime/flow/run_messages.h"

namespace troupe {

/// Which process runs which actor. With one process that is process 0 for all actors, whatever the
/// graph says. Process 0 holds the run leader.
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

/// A packet for an actor of another process.
struct RemotePacket {
  std::uint32_t actor = 0;        ///< the receiver
  std::uint32_t incarnation = 0;  ///< of the receiver; other incarnations drop the packet
  Packet packet;
};
/// A credit for an actor of another process.
struct RemoteCredit {
  std::uint32_t actor = 0;
  Credit credit;

  static void members(auto& self, auto& visit) {
    visit(self.actor);
    visit(self.credit);
  }
};

/// Receives what other processes send. For one sender the functions are called one at a time, on
/// threads of the bridge or in Bridge::deliver_pending. They must not block.
class BridgeListener {
 public:
  virtual ~BridgeListener() = default;
  virtual void on_packet(std::uint32_t from, RemotePacket packet) = 0;
  virtual void on_credit(std::uint32_t from, RemoteCredit credit) = 0;
  virtual void on_run_message(std::uint32_t from, RunMessage message) = 0;
  /// The process has ended, or cannot be reached any more. The last call about it.
  virtual void on_lost(std::uint32_t process, const Error& reason) = 0;
};

/// Carries a run's messages between its processes. All messages from one process to another arrive
/// exactly once and in the order of sending, or the process is reported lost. (When any process is
/// lost, EndRun, RunFailed and ProcessEnded may arrive twice.) Any thread may send; sending blocks
/// no longer than a copy takes. The slots of the edges bound what is under way.
class Bridge {
 public:
  virtual ~Bridge() = default;
  /// Begins to deliver. Messages that arrived before are delivered now.
  virtual void open(std::shared_ptr<BridgeListener> listener) = 0;
  /// When it returns, no delivery is under way and none begins. Later sends have no effect.
  virtual void close() = 0;
  virtual void send(std::uint32_t to, RemotePacket packet) = 0;
  virtual void send(std::uint32_t to, RemoteCredit credit) = 0;
  virtual void send(std::uint32_t to, RunMessage message) = 0;

  /// All actor threads of this process are at work: the bridge may leave arrivals until the next
  /// deliver_pending(), and let its own threads sleep. Any thread may call both functions, also at
  /// the same time.
  virtual void defer_delivery() {}
  /// Delivers the arrivals that were left. Later arrivals are delivered at once again.
  virtual void deliver_pending() {}
};

}  // namespace troupe
