#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/flow/graph.h"
#include "runtime/flow/notes.h"

namespace troupe {

/// Which process runs which actor. Process 0 leads: it counts the votes and decides what becomes of
/// the dead.
struct Placement {
  std::vector<std::uint32_t> process;  ///< by node of the graph; empty: all in this one
  std::uint32_t here = 0;
  std::uint32_t processes = 1;

  std::uint32_t of(std::size_t node) const { return process.empty() ? here : process[node]; }
  bool is_here(std::size_t node) const { return of(node) == here; }
  bool leads() const { return here == 0; }
};

/// Throws Error{bad_graph} when the placement does not fit the graph, and when an edge between two
/// processes carries a type that cannot leave one (runtime/flow/payload.h).
void check_placement(const Graph& graph, const Placement& placement);

/// A message for an actor of another process.
struct RemotePacket {
  std::uint32_t node = 0;        ///< who gets it
  std::uint32_t generation = 0;  ///< which life of it is meant; for others it is dropped
  Packet packet;
};
struct RemoteCredit {
  std::uint32_t node = 0;
  Credit credit;
};

/// Hears what other processes send. Its functions are called one at a time for each sender, on
/// threads of the bridge, and never block.
class BridgeListener {
 public:
  virtual ~BridgeListener() = default;
  virtual void on_packet(std::uint32_t from, RemotePacket packet) = 0;
  virtual void on_credit(std::uint32_t from, RemoteCredit credit) = 0;
  virtual void on_note(std::uint32_t from, Note note) = 0;
  /// The process is gone, or cannot be reached any more. The last call about it.
  virtual void on_lost(std::uint32_t process, const Error& reason) = 0;
};

/// Carries a run's messages between its processes. What one process sends to another arrives
/// exactly once and in the order in which it was sent, whatever its kind, or the process is
/// reported lost. Sending is for any thread and never blocks for longer than a copy takes; an
/// edge's slots bound what is under way.
class Bridge {
 public:
  virtual ~Bridge() = default;
  /// Begins to deliver; what came before has waited.
  virtual void open(std::shared_ptr<BridgeListener> listener) = 0;
  /// No delivery begins after this has returned.
  virtual void close() = 0;
  virtual void send(std::uint32_t to, RemotePacket packet) = 0;
  virtual void send(std::uint32_t to, RemoteCredit credit) = 0;
  virtual void send(std::uint32_t to, Note note) = 0;
};

}  // namespace troupe
