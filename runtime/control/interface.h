#pragma once
// The network interfaces and addresses of this machine.

#include <filesystem>
#include <string>
#include <vector>

namespace troupe {

/// A network interface that is up, with one of its addresses.
struct NetworkInterface {
  std::string name;     ///< "eth0"
  std::string address;  ///< "10.0.0.7", "fd00::7"
};

/// One entry for each address; IPv4 before IPv6.
std::vector<NetworkInterface> network_interfaces();

/// The first address of the interface `name`, which may also be an address of this machine. Throws
/// Error{bad_options} that lists the interfaces.
std::string address_of_interface(const std::string& name);

/// The local address of packets to `host` (a name or an address). Sends nothing. Throws Error{io}
/// if the name is unknown or there is no route.
std::string address_towards(const std::string& host);

/// The addresses of a host, by name or address, IPv4 first. "localhost" often has both kinds, and a
/// port is bound to one of them: binding and connecting both use this order. Throws Error{io} if
/// the name is unknown.
std::vector<std::string> addresses_of_host(const std::string& host);

/// "boot id/network namespace": equal for two processes exactly if they share a machine and its
/// loopback. If either cannot be read, the result is different in each call: a namespace alone does
/// not identify a machine, since the first one has the same number everywhere. `root` contains
/// /proc, for tests.
std::string host_identity(const std::filesystem::path& root = "/");

std::string host_name();

}  // namespace troupe
