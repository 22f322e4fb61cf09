#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/control/member.h"
#include "runtime/transport/communicator.h"

namespace troupe {

/// How tensors travel between processes.
enum class TransportKind : std::uint8_t {
  automatic,  ///< shared memory between processes of one host, Gloo between hosts
  shm,        ///< shared memory; all processes must be on one host
  gloo,       ///< Gloo also within a host
};

struct BulkOptions {
  TransportKind transport = TransportKind::automatic;
  std::string interface;                            ///< of Gloo; empty: its choice
  std::chrono::milliseconds timeout{30'000};        ///< for peers to appear
  std::size_t memory_limit = std::size_t{1} << 30;  ///< as in ShmOptions
};

/// The bulk plane of one process: for each peer the communicator that reaches it. Thread-safe.
class Bulk {
 public:
  /// Every process calls it at the same time. Error{bad_options} where `shm` cannot reach
  /// all, naming the hosts; Error{timed_out} with who is missing.
  static Result<std::shared_ptr<Bulk>> connect(Member& member, const BulkOptions& options);

  WorkPtr send(int to, std::uint64_t tag, Tensor tensor);
  ReceivePtr receive(int from, std::uint64_t tag, const TensorMeta& meta);
  struct Route {
    Communicator* communicator = nullptr;
    int rank = 0;  ///< of the peer, there
    bool shares_memory = false;
  };
  const Route& route(int peer) const { return routes_.at(static_cast<std::size_t>(peer)); }
  void abort(const Error& error);

 private:
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<Route> routes_;  ///< by rank of the world
};

}  // namespace troupe
