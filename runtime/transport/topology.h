#pragma once
// Which transport carries tensors between two processes of a world.

#include <string>
#include <string_view>
#include <vector>

#include "runtime/transport/transport.h"

namespace troupe {

/// The value of TransportOptions::transport that selects, for each pair of processes, the first of
/// transports() that joins the pair.
inline constexpr std::string_view automatic_transport = "auto";

/// Determines the transport between each pair of processes, for the data plane and for the run
/// description.
class TransportTopology {
 public:
  /// `transport` is the name of one transport, or automatic_transport. Throws Error{bad_options}
  /// for an unknown name. Throws Error{bad_options} with the names of two processes if the
  /// transport does not join all processes.
  TransportTopology(std::vector<ProcessPlace> processes, std::string_view transport);

  int size() const { return static_cast<int>(processes_.size()); }
  /// The route of tensors on a device between two different processes. Throws Error{unsupported}
  /// where no transport carries these.
  const Transport& between(int one, int other, Device device) const;

  /// Processes that one communicator connects, in the order of ranks.
  struct Group {
    const Transport* transport;
    std::vector<int> ranks;
  };
  /// The groups of `rank` for tensors on a device: one for each transport that joins `rank` to
  /// others and is the route between at least two processes of the group.
  std::vector<Group> groups_of(int rank, Device device) const;

  /// "shared memory", or "shared memory within a host, Gloo between".
  std::string summary() const;

 private:
  const Transport* find(int one, int other, Device device) const;

  std::vector<ProcessPlace> processes_;
  std::vector<const Transport*> choices_;  ///< the preferred ones first
};

/// The values of TransportOptions::transport: automatic_transport and the name of each transport.
std::vector<std::string_view> transport_choices();

/// The meaning of `transport`, independent of the processes: "shared memory within a host, Gloo
/// between hosts".
std::string meaning_of_transport(std::string_view transport);

/// Whether `transport` joins processes of different hosts.
bool joins_hosts(std::string_view transport);

}  // namespace troupe
