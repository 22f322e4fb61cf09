#pragma once
// Which address of this machine to listen on.

#include <filesystem>
#include <string>
#include <vector>

namespace troupe {

/// A network interface that is up, with one of its addresses.
struct NetworkInterface {
  std::string name;     ///< "eth0"
  std::string address;  ///< "10.0.0.7", "fd00::7"
};

/// One entry an address; IPv4 before IPv6.
std::vector<NetworkInterface> network_interfaces();

/// The first address of the interface `name`; an address of this machine is taken as it is.
/// Throws Error{bad_options} that lists the interfaces there are.
std::string address_of_interface(const std::string& name);

/// The address that packets to `host` (a name or an address) leave from; nothing is sent.
/// Throws Error{io} when the name is unknown or nothing leads there.
std::string address_towards(const std::string& host);

/// The addresses that a host's name stands for, IPv4 first: "localhost" often has both, and a port
/// is bound to one, so all who bind or connect take them in this order. An address is taken as it
/// is. Throws Error{io} when the name is unknown.
std::vector<std::string> addresses_of_host(const std::string& host);

/// "boot id/network namespace": equal for two processes exactly if they share a machine and its
/// loopback. Where either cannot be read, it is another with every call, and equals none: a
/// namespace alone says nothing, since the first one has the same number on every machine.
/// `root` is where /proc is, for tests.
std::string host_identity(const std::filesystem::path& root = "/");

std::string host_name();

}  // namespace troupe
