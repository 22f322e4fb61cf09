#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace troupe {

/// How tensors travel between processes.
enum class TransportKind : std::uint8_t {
  automatic,  ///< shared memory between processes of one host, Gloo between hosts
  shm,        ///< shared memory; all processes must be on one host
  gloo,       ///< Gloo also within a host
};

/// How the processes of a run reach each other.
struct TransportOptions {
  TransportKind transport = TransportKind::automatic;
  std::string interface;                      ///< network interface; empty: found by itself
  std::chrono::milliseconds timeout{30'000};  ///< for the others to come, and to answer
};

}  // namespace troupe
