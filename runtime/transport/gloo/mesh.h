#pragma once
// Inside the Gloo transport: its connections, and how they are cut.

#include <gloo/rendezvous/context.h>

#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime/fd.h"
#include "runtime/transport/transport.h"

namespace troupe::transport {

/// The remedy where the system opens no more sockets.
inline constexpr const char* more_open_files =
    "five open files are needed for each other rank: raise the limit (ulimit -n)";

/// Two Gloo contexts that connect all ranks: one for bytes to higher ranks, one for bytes to lower
/// ranks. Gloo does not read from a connection while it writes to it, so with a single context the
/// tensors of both directions would wait for each other. The mesh also keeps duplicates of Gloo's
/// sockets: shutdown(2) on them ends a blocked operation at once, which Gloo has no call for.
class Mesh {
 public:
  using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

  /// Returns when all ranks are connected. Throws Error: timed_out, io, or peer_lost if another
  /// program has connected in the place of a rank.
  explicit Mesh(const TransportGroup& group);
  ~Mesh();  ///< cuts

  /// Fails every operation, here and at the peers, and waits for Gloo's thread, which may be
  /// reading into a buffer. Afterwards Gloo accesses no memory of any buffer. Any thread may call
  /// it, more than once.
  void cut();
  /// For bytes to a peer, and for bytes from one.
  Buffer buffer_to(int peer, void* data, std::size_t bytes) const {
    return context(rank_, peer).createUnboundBuffer(data, bytes);
  }
  Buffer buffer_from(int peer, void* data, std::size_t bytes) const {
    return context(peer, rank_).createUnboundBuffer(data, bytes);
  }
  /// Wait for the operation of a buffer, without a time limit. Throw if it fails or the connections
  /// are cut.
  void await_receive(gloo::transport::UnboundBuffer& buffer);
  void await_send(gloo::transport::UnboundBuffer& buffer);
  /// A secret that only the ranks of this group know.
  const std::string& secret() const { return secret_; }

 private:
  class Waiting;
  using Context = gloo::rendezvous::Context;

  Context& context(int from, int to) const { return from < to ? *up_ : *down_; }
  void check_secrets(int size, std::chrono::milliseconds patience);
  void find_sockets(const Context& context, std::size_t which);

  const int rank_;
  std::string secret_;
  std::shared_ptr<Context> up_, down_;
  std::vector<std::array<Fd, 2>> sockets_;  ///< by rank: of up_ and down_
  std::mutex mutex_;                        ///< of what follows
  bool cut_ = false;
  std::set<gloo::transport::UnboundBuffer*> waiting_;
};

}  // namespace troupe::transport
