#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/control/member.h"
#include "runtime/remote/transport_options.h"
#include "runtime/transport/communicator.h"

namespace troupe {

/// Where `shm` is asked for and the process `rank` is on another host than process 0.
Error not_on_one_host(const std::string& host_of_zero, int rank, const std::string& host);

/// The bulk plane of one process: for each peer the communicator that reaches it. Thread-safe.
/// Bounds nothing: what is on its way is what the edges' slots allow. A second bound below theirs
/// could wait for memory that only the message it holds back would free. It ends, with its threads,
/// connections and memory, when its owner destroys it; received tensors may outlive it.
class Bulk {
 public:
  /// Every process calls it at the same time. Error{bad_options} where `shm` cannot reach
  /// all, naming the hosts; Error{timed_out} with who is missing.
  static Result<std::unique_ptr<Bulk>> connect(Member& member, const TransportOptions& options);

  WorkPtr send(int to, std::uint64_t tag, Tensor tensor);
  ReceivePtr receive(int from, std::uint64_t tag, const TensorMeta& meta);
  struct Route {
    Communicator* communicator = nullptr;
    int rank = 0;  ///< of the peer, there
    bool shares_memory = false;
  };
  const Route& route(int peer) const { return routes_.at(static_cast<std::size_t>(peer)); }
  void defer_delivery();  ///< both as Communicator's
  void deliver_pending();
  void abort(const Error& error);
  void fail(const Error& error);  ///< as abort, and tells the peers

 private:
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<Route> routes_;  ///< by rank of the world
};

}  // namespace troupe
