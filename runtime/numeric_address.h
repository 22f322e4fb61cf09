#pragma once
// Addresses of sockets, without name resolution.

#include <netdb.h>

#include <memory>
#include <string>

namespace troupe {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// The address of a TCP socket, IPv4 or IPv6 ("fe80::7%eth0" with its scope); empty unless both are
/// numbers.
Addresses numeric_address(const std::string& host, const std::string& port);

}  // namespace troupe
