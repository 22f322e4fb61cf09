#pragma once
// Inside the shared-memory transport: the sending half of a connection.

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "runtime/transport/shm/arena.h"
#include "runtime/transport/shm/peer_connection.h"
#include "runtime/transport/work.h"

namespace troupe::transport {

/// Copies tensors into blocks and writes their descriptors to the ring of one peer. Where the ring
/// or the socket is full, descriptors wait for the receiving thread to flush them. Thread-safe.
class ShmSender {
 public:
  ShmSender(std::shared_ptr<PeerConnection> connection, std::function<void()> wake_engine)
      : connection_(std::move(connection)),
        wake_engine_(std::move(wake_engine)),
        writer_(connection_->outgoing()) {}

  /// The work ends when the descriptor is in the ring. Throws Error{io} if the system has no
  /// memory.
  void send(Arena& arena, std::uint64_t tag, const Tensor& tensor, const WorkPtr& work);
  /// Writes waiting descriptors; whether it could write any.
  bool flush();
  /// Ends the works that wait, and all later ones, with `error`. When it returns, no tensor is
  /// being copied.
  void close(const Error& error);

  bool waits() const { return waits_; }  ///< for room in the ring or the socket
  bool waits_for_socket() const { return socket_full_; }
  void socket_has_room() { socket_full_ = false; }
  bool is_damaged() const { return damaged_; }  ///< the peer has written an impossible value

 private:
  struct Ready {  ///< copied, but not in the ring
    Descriptor descriptor;
    Block block;
    WorkPtr work;
  };
  // With the mutex held.
  bool announce(const Segment& segment);  ///< false: the socket is full
  bool write(const Ready& ready);         ///< false: the ring or the socket is full

  const std::shared_ptr<PeerConnection> connection_;
  const std::function<void()> wake_engine_;
  std::mutex mutex_;  ///< of what follows
  RingWriter writer_;
  std::set<std::uint32_t> announced_;  ///< segments that the peer knows
  std::deque<Ready> ready_;
  std::optional<Error> closed_;
  std::atomic<bool> waits_ = false, socket_full_ = false, damaged_ = false;
};

}  // namespace troupe::transport
