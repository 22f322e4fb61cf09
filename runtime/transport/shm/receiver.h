#pragma once
// Inside the shared-memory transport: the receiving half of a connection.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/transport/shm/arena.h"
#include "runtime/transport/shm/peer_connection.h"

namespace troupe::transport {

/// A block of a peer that this rank reads. The destructor frees it for the peer.
class BorrowedBlock {
 public:
  BorrowedBlock(std::shared_ptr<const Segment> segment, BlockHeader& header)
      : segment_(std::move(segment)), header_(header) {}
  ~BorrowedBlock() { header_.holders.fetch_sub(1, std::memory_order_release); }
  BorrowedBlock(const BorrowedBlock&) = delete;
  BorrowedBlock& operator=(const BorrowedBlock&) = delete;

 private:
  std::shared_ptr<const Segment> segment_;
  BlockHeader& header_;
};

/// A tensor in a block of a peer.
struct ShmArrival {
  std::uint64_t tag = 0;
  TensorMeta meta;
  const std::byte* data = nullptr;
  std::shared_ptr<BorrowedBlock> block;

  Tensor tensor() const;
};

/// Reads the ring and the socket of one peer, and checks all that they contain. The caller provides
/// the lock.
class ShmReceiver {
 public:
  /// `peer` begins the messages of errors: "shm, rank 0 of 2: the shared memory of rank 1".
  ShmReceiver(std::shared_ptr<PeerConnection> connection, std::string peer)
      : connection_(std::move(connection)),
        peer_(std::move(peer)),
        reader_(connection_->incoming()) {}

  /// The next tensor in the ring, if there is one. Throws Error{bad_message} for what no sender
  /// writes.
  std::optional<ShmArrival> next_tensor();
  /// The next signal of the socket that the caller must handle: a warning, a closing message, or
  /// the loss of the connection. Throws Error{bad_message} for what no rank sends.
  std::optional<Signal> next_signal();

  Error damaged(const std::string& what) const;

 private:
  bool read_signal();  ///< false: none was there
  void add_segment(Signal signal);
  std::shared_ptr<const Segment> segment_of(const Descriptor& descriptor);

  const std::shared_ptr<PeerConnection> connection_;
  const std::string peer_;
  RingReader reader_;
  std::map<std::uint32_t, std::shared_ptr<const Segment>> segments_;
  std::deque<Signal> signals_;  ///< read, not yet handled
};

}  // namespace troupe::transport
