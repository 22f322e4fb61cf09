#pragma once
// Inside the transports: the way of one collective to its peers.

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/transport/tensor_meta.h"

namespace troupe::transport {

/// What a rank wants of a collective; all ranks must want the same.
struct CollectiveCall {
  enum class Kind : std::uint8_t { broadcast, all_reduce, all_gather, reduce_scatter };
  Kind kind = Kind::broadcast;
  int root = 0;  ///< of a broadcast
  TensorMeta meta;

  bool fits(const CollectiveCall& other) const {
    return kind == other.kind && root == other.root && meta.fits(other.meta);
  }
};

std::string to_string(const CollectiveCall& call);  ///< "all_reduce of f32 [3] row_major"

/// Two streams of bytes to and from every peer, in pieces whose sizes both sides know. Used by one
/// thread. Every member throws the Error that ended the communicator.
class Exchange {
 public:
  /// Contributions to sums, and what is final.
  enum Stream : std::uint8_t { partial = 0, final = 1 };

  /// How tensors are cut: pieces large enough that a message costs little beside its bytes, small
  /// enough that what came is still in a cache when it is summed; and so many of each stream under
  /// way at once.
  struct Pace {
    std::size_t piece_bytes = 0, window = 0;
  };

  virtual ~Exchange() = default;
  virtual Pace pace() const = 0;
  /// Waits for the same call at every rank; throws if they differ.
  virtual void meet() = 0;
  /// The memory must stay as it is until finish(), or until a peer's answer shows that it was read.
  virtual void send(int to, Stream stream, const std::byte* data, std::size_t bytes) = 0;
  /// Sends the same to every peer.
  virtual void send_to_all(Stream stream, const std::byte* data, std::size_t bytes) = 0;
  /// Announces the next piece that take() will be asked for; `into` may be null, if looking at it
  /// is enough.
  virtual void expect(int from, Stream stream, std::byte* into, std::size_t bytes) = 0;
  /// Waits for the next expected piece; valid until its give_back().
  virtual const std::byte* take(int from, Stream stream) = 0;
  /// Ends the use of the piece that was taken first and not yet given back.
  virtual void give_back(int from, Stream stream) = 0;
  /// Waits until the memory of everything sent may be written again.
  virtual void finish() = 0;
};

}  // namespace troupe::transport
