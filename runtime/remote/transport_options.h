#pragma once
#include <chrono>
#include <string>

#include "runtime/transport/topology.h"

namespace troupe {

/// How the processes of a run reach each other.
struct TransportOptions {
  /// What carries tensors: the name of a transport (runtime/transport/transport.h), or
  /// automatic_transport: shared memory within a host, Gloo between hosts.
  std::string transport{automatic_transport};
  std::string interface;                      ///< network interface; empty: chosen by itself
  std::chrono::milliseconds timeout{30'000};  ///< for the others to come, and to answer
};

}  // namespace troupe
