#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/control/member.h"
#include "runtime/remote/transport_options.h"
#include "runtime/transport/communicator.h"
#include "runtime/transport/topology.h"

namespace troupe {

/// The transports between the processes of a world. Throws as TransportTopology.
TransportTopology topology_of(const Member& member, const TransportOptions& options);

/// The data plane of one process: a communicator for each peer. Thread-safe. It sets no bound of
/// its own: the slots of the edges bound the tensors under way. A tighter bound could block a send
/// on memory that only the blocked message would free. The destructor ends the threads and
/// connections; received tensors may outlive it.
class DataPlane {
 public:
  /// Every process calls it at the same time. Error{bad_options} if the transport does not join all
  /// processes, Error{timed_out} with the missing rank.
  static Result<std::unique_ptr<DataPlane>> connect(Member& member,
                                                    const TransportOptions& options);

  WorkPtr send(int to, std::uint64_t tag, Tensor tensor);
  ReceivePtr receive(int from, std::uint64_t tag, const TensorMeta& meta);

  /// How this process reaches a peer.
  struct Route {
    const Transport* transport = nullptr;  ///< null: to itself
    Communicator* communicator = nullptr;
    int rank = 0;  ///< of the peer in the communicator
  };
  const Route& route(int peer) const { return routes_.at(static_cast<std::size_t>(peer)); }

  void defer_delivery();  ///< both as Communicator's
  void deliver_pending();
  void abort(const Error& error);
  void fail(const Error& error);  ///< as abort, and notifies the peers

 private:
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<Route> routes_;  ///< by rank of the world
};

}  // namespace troupe
