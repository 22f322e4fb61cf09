#pragma once
// Inside the Gloo transport: connections, and how they are cut.

#include <gloo/rendezvous/context.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime/fd.h"
#include "runtime/transport/communicator.h"

namespace troupe::transport {

/// What to do where no more can be opened.
inline constexpr const char* more_open_files =
    "five open files are needed for each other rank: raise the limit (ulimit -n)";

/// Two Gloo contexts whose ranks are all connected, one for bytes to higher ranks and one for bytes
/// to lower ones: Gloo does not read from a connection while it writes to it, so with one for both
/// directions a collective's pieces wait for each other (docs/performance.md). Beside them
/// duplicates of their sockets: shutdown(2) on those is what ends a blocked operation at once,
/// which Gloo itself has no call for.
class Mesh {
 public:
  using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

  /// Returns when all are connected; throws Error{timed_out}, Error{io}, or Error{peer_lost} if a
  /// stranger is among them.
  Mesh(Store& store, int rank, int size, const GlooOptions& options);
  ~Mesh();  ///< cuts

  /// Fails every operation, here and at the peers, and waits for Gloo's thread, which may be
  /// reading into a buffer: once this has returned Gloo touches no memory of any. Any thread, again
  /// and again.
  void cut();
  /// For what goes to a peer, and for what comes from one.
  Buffer buffer_to(int peer, void* data, std::size_t bytes) const {
    return way(rank_, peer).createUnboundBuffer(data, bytes);
  }
  Buffer buffer_from(int peer, void* data, std::size_t bytes) const {
    return way(peer, rank_).createUnboundBuffer(data, bytes);
  }
  /// Wait for an operation of a buffer with this peer, for as long as it takes; throw once it has
  /// failed or the connections are cut.
  void await_receive(int peer, gloo::transport::UnboundBuffer& buffer);
  void await_send(int peer, gloo::transport::UnboundBuffer& buffer);
  /// Of a peer that has ended its part: blocks until its connections have ended and Gloo has had
  /// what was in them, then ends the waits for what will never come whole; or until cut().
  void forsake(int peer);
  /// What only ranks of this group know.
  const std::string& secret() const { return secret_; }

 private:
  class Waiting;
  using Context = gloo::rendezvous::Context;

  Context& way(int from, int to) const { return from < to ? *up_ : *down_; }
  void expose_strangers(int size, std::chrono::milliseconds patience);
  void find_sockets(const Context& context, std::size_t which);
  void abort_waits(int peer);  ///< mutex_ is held

  const int rank_;
  std::string secret_;
  std::shared_ptr<Context> up_, down_;
  std::vector<std::array<Fd, 2>> sockets_;  ///< by rank: of up_ and down_
  std::mutex mutex_;
  bool cut_ = false;
  std::condition_variable changed_;  ///< cut_
  std::set<int> forsaken_;
  std::multimap<int, gloo::transport::UnboundBuffer*> waiting_;  ///< by peer
};

}  // namespace troupe::transport
