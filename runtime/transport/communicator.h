#pragma once
// The data plane: tensors between the processes of a group, by any transport.

#include <cstdint>
#include <memory>

#include "runtime/error.h"
#include "runtime/tensor/tensor.h"
#include "runtime/transport/tensor_meta.h"
#include "runtime/transport/work.h"

namespace troupe {

/// Sends and receives between the ranks 0 to size() - 1 of a group of processes. A communicator
/// serves one generation of the world.
///
/// *Matching.* A receive matches the send of the same (peer, tag). Several sends of one tag match
/// in the order in which each side started them. Different tags never wait for each other. Either
/// half may start long before the other.
///
/// *Threads.* Any thread may call any member. No call waits for a peer; a send may copy before it
/// returns.
///
/// *Memory.* The caller may drop the tensor of a send at once: the transport keeps a handle. The
/// caller must not write it before the work is done. A received tensor is read-only.
///
/// *Errors.* Mistakes of the caller are thrown: an unknown rank, an undefined tensor, a tensor on
/// a different device from that of the communicator (TransportGroup::device). All other errors are
/// the Status of the work. A lost peer, a send that does not fit its receive and damaged memory end
/// the whole communicator, here and at all peers: every other work, current or later, ends with the
/// same error.
///
/// *End.* The destructor sends the peers a closing message. Peers still receive what this rank has
/// sent (with Gloo, if they read it within a second); unfinished works of this rank end with an
/// error. A peer fails only when it needs this rank again. Received tensors may outlive the
/// communicator. With Gloo the ranks should pass a barrier before they end: a closed connection can
/// lose its last bytes.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// The work is done when the tensor may be written again. Shared memory: after the copy into it.
  /// Gloo: at once up to 4 KiB, else when the peer has received it.
  virtual WorkPtr send(int to, std::uint64_t tag, Tensor tensor) = 0;
  /// `meta` must equal the sent tensor's shape, element type and layout.
  virtual ReceivePtr receive(int from, std::uint64_t tag, const TensorMeta& meta) = 0;

  /// Ends every work of this rank, current or later, with `error`. Only the first call counts.
  /// Peers are not notified.
  virtual void abort(const Error& error) = 0;
  /// The same, and sends the reason to the peers as far as that needs no waiting. Without it they
  /// notice only that a connection has ended.
  virtual void fail(const Error& error) = 0;
};

}  // namespace troupe
