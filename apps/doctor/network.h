#pragma once
// troupe doctor --network: times messages and tensors between the processes of a world.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/doctor/checks.h"
#include "apps/options/options.h"
#include "runtime/world/environment.h"

namespace troupe {

/// Two processes, one of which sends to the other.
struct ProcessPair {
  int from = 0, to = 0;
  friend bool operator==(const ProcessPair&, const ProcessPair&) = default;
};

/// Each process and its successor, in a ring. If these are more than `most`, pairs of two hosts
/// first, spread evenly over the ranks. `hosts` has the host of each process. In order of `from`.
std::vector<ProcessPair> pairs_to_measure(const std::vector<std::string>& hosts, std::size_t most);

/// A size of tensor at which bandwidth is measured.
struct BulkSize {
  std::size_t bytes;
  const char* name;
};
inline constexpr std::array<BulkSize, 4> bulk_sizes{{{std::size_t{1} << 16, "64 KiB"},
                                                     {std::size_t{1} << 20, "1 MiB"},
                                                     {std::size_t{1} << 24, "16 MiB"},
                                                     {std::size_t{1} << 26, "64 MiB"}}};

struct PairSpeed {
  ProcessPair pair;
  std::string transport;    ///< its title
  double message_time = 0;  ///< seconds until a message of the control plane is answered
  double tensor_time = 0;   ///< the same of a tensor of 1 KiB
  std::array<double, bulk_sizes.size()> rates{};  ///< bytes/s of each size; 0: it takes too long
  std::string interface;                          ///< that the sender uses: "eth0 (10.0.0.7)"
};

/// Pairs that are at least three times slower than the median of those with the same transport,
/// where there are three or more. `names` has the host name of each process.
Findings slow_pairs(const std::vector<PairSpeed>& speeds, const std::vector<std::string>& names);

/// One line for each pair.
std::string speed_table(const std::vector<PairSpeed>& speeds,
                        const std::vector<std::string>& names);

/// Joins the world as a training run does, measures pair after pair, and prints the result in rank
/// 0. Every process calls it. Returns the exit code; one process prints an error. Throws
/// Error{usage} in a process that is alone.
int measure_network(const Options& options, bool json);

}  // namespace troupe
