#pragma once
#include <cstdint>
#include <functional>
#include <variant>
#include <vector>

#include "runtime/flow/graph.h"
#include "runtime/flow/run_messages.h"

namespace troupe {

/// The process of each actor. In a run of one process it is process 0 for all actors, and
/// Graph::place has no effect. Process 0 holds the run leader.
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

/// A message from one process of a run to another. The receiving process drops a packet whose
/// `Header::receiver` is not the current incarnation of its actor.
using BridgeMessage = std::variant<Packet, Credit, RunMessage>;

/// Carries a run's messages between its processes. The messages from one process to another arrive
/// exactly once and in the order of sending, unless the bridge reports one of the two as lost.
/// After a loss, EndRun, RunFailed and ProcessEnded may arrive twice. Any thread may send. A send
/// may copy tensors; it never waits for a peer. The slots of the edges bound the messages in
/// flight.
class Bridge {
 public:
  using OnMessage = std::function<void(std::uint32_t from, BridgeMessage message)>;
  /// The process has ended or can no longer be reached.
  using OnLost = std::function<void(std::uint32_t process, const Error& reason)>;

  virtual ~Bridge() = default;
  /// Begins to deliver. Messages that arrived before are delivered now. For each sender the
  /// functions are called one at a time, on a thread of the bridge or on an actor thread that has
  /// finished an action; they must not block. `on_lost` may be called again for the same process.
  virtual void open(OnMessage on_message, OnLost on_lost) = 0;
  /// When it returns, no delivery is in progress and none begins. Later sends have no effect.
  virtual void close() = 0;
  virtual void send(std::uint32_t to, BridgeMessage message) = 0;
};

}  // namespace troupe
