#pragma once
// The bulk plane: tensors between the processes of a group, whichever way they travel.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "runtime/tensor/tensor.h"
#include "runtime/transport/store.h"
#include "runtime/transport/tensor_meta.h"
#include "runtime/transport/work.h"

namespace troupe {

/// A group of processes that hand tensors to each other: ranks 0 to size() - 1, for one generation.
///
/// *Matching.* A receive meets the send of the same (peer, tag); several of one tag meet in the
/// order in which each side started them. A collective meets the calls of the same tag at all
/// ranks; several of one tag in the order of each rank's calls. Sends and collectives do not see
/// each other's tags, and different tags never wait for each other, so nothing depends on the order
/// of calls by accident. A send or a receive may be started long before its other half.
///
/// *Threads.* Every member may be called from any thread, none blocks until a peer has done
/// something (a send may copy before it returns).
///
/// *Memory.* The tensor of a send may be dropped at once (the transport keeps a handle) and must
/// not be written before the work is done; with the local transport not before the receiver has
/// dropped it, since what is received there is the sent memory itself. A received tensor is
/// read-only. Tensors of collectives belong to the transport until the work is done.
///
/// *Errors.* What cannot be right whatever the peers do is thrown: an unknown rank, an undefined
/// tensor, an element type without a sum, a tensor of a device that this transport does not serve.
/// All else is the work's Status. A peer that is gone, a send that does not fit its receive, calls
/// of one collective that differ, and damaged memory end the whole communicator, here and at all
/// peers: that and every other work, under way or to come, ends with the same error.
///
/// *End.* Destroying a communicator says goodbye: what was sent and is done still reaches peers (by
/// Gloo those that read within a second), what is under way here ends with an error. Peers go on
/// until they need this rank. Received tensors may outlive it. With Gloo, ranks should pass a
/// barrier before they end: what the last collective left in the sockets can be lost with the
/// connection.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string name() const = 0;  ///< "local", "shm" or "gloo"

  /// Done when the tensor may be written again. Shared memory: when it was copied; local: at once;
  /// Gloo: up to 4 KiB at once, else when it was received.
  virtual WorkPtr send(int to, std::uint64_t tag, Tensor tensor) = 0;
  /// `meta` must be what is sent, shape, element type and layout.
  virtual ReceivePtr receive(int from, std::uint64_t tag, const TensorMeta& meta) = 0;

  /// `root`'s elements to everybody's `tensor`.
  virtual WorkPtr broadcast(int root, std::uint64_t tag, Tensor tensor) = 0;
  /// In place, the sum over all ranks in the binary tree ((0+1)+(2+3))+..., where a missing right
  /// half passes the left: the same bits on all ranks and transports. bf16 and f16 are added in f32
  /// and rounded at each node of the tree.
  virtual WorkPtr all_reduce(std::uint64_t tag, Tensor tensor) = 0;
  /// Every rank's `in`, in the order of ranks, to `out`, which has size() times the elements.
  virtual WorkPtr all_gather(std::uint64_t tag, Tensor in, Tensor out) = 0;
  /// Part rank() of the sum of all `in`s (the same tree) to `out`, which has 1 / size() of the
  /// elements.
  virtual WorkPtr reduce_scatter(std::uint64_t tag, Tensor in, Tensor out) = 0;

  /// Nobody here could use what arrives before the next `catch_up`: a transport may leave it until
  /// then, and its own threads asleep. What ends, such as a peer, is still noticed at once.
  virtual void let_wait() {}
  /// Handles what has arrived, if it was let wait, on the calling thread: when it returns, receives
  /// whose tensors were sent before are done, unless another thread is catching up just then. What
  /// arrives later is handled at once again. Callbacks of works must not call it.
  virtual void catch_up() {}

  /// Ends every work of this rank, under way or to come, with `error`; only the first call counts.
  /// Peers are not told.
  virtual void abort(const Error& error) = 0;
  /// The same, but the peers are told why, as far as they can be without waiting: they would hear
  /// of a connection that has ended only.
  virtual void fail(const Error& error) = 0;
};

/// Ranks that are threads of this process. Handles are passed, nothing is copied but by
/// collectives, which read each other's tensors: one that was aborted under way must not be written
/// afterwards.
std::vector<std::unique_ptr<Communicator>> make_local_communicators(int size);

struct ShmOptions {
  /// Prefix of the keys put into the store; one a communicator and generation.
  std::string group = "shm";
  /// For the peers to appear.
  std::chrono::milliseconds timeout{30'000};
  /// The most that this rank has in shared memory for tensors that were sent and not yet dropped;
  /// what is sent beyond waits. At least what all edges' slots may hold together.
  std::size_t memory_limit = std::size_t{1} << 30;
};

/// Ranks that are processes of one host: equal, known identities (host_identity() in
/// runtime/control/interface.h), so one machine and one network namespace. Every rank calls it with
/// the same size, group and store; returns when all are connected, or with who is missing.
Result<std::unique_ptr<Communicator>> make_shm_communicator(Store& store, int rank, int size,
                                                            const ShmOptions& options = {});

struct GlooOptions {
  /// Prefix of the keys put into the store; one a communicator and generation.
  std::string group = "gloo";
  /// For the peers to appear.
  std::chrono::milliseconds timeout{30'000};
  /// Name of the network interface whose address is used ("eth0"), or that address.
  std::string interface = "lo";
};

/// Ranks that reach each other by TCP. Every rank calls it with the same size, group and store;
/// returns when all are connected, or with who is missing. What travels is neither encrypted nor,
/// after the first words, authenticated: for private networks. Makes the process ignore SIGPIPE if
/// nothing handles it, since Gloo's writes raise it.
Result<std::unique_ptr<Communicator>> make_gloo_communicator(Store& store, int rank, int size,
                                                             const GlooOptions& options = {});

}  // namespace troupe
