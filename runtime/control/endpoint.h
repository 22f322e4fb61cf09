#pragma once
// Where a process listens, as text.

#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

namespace troupe {

struct HostAndPort {
  std::string host;  ///< a name or an address, without brackets
  int port = 0;
};

/// "tcp://127.0.0.1:29400", "tcp://[fd00::7]:29400".
std::string tcp_endpoint(const std::string& host, int port);

/// Takes apart what tcp_endpoint puts together; nothing for anything else.
std::optional<HostAndPort> parse_endpoint(const std::string& endpoint);

/// Whether a host, by name or address, is on every machine that machine itself: 127.0.0.0/8, ::1,
/// localhost.
bool is_loopback(std::string_view host);

/// Whether whoever listens at an address of this machine greets as ZeroMQ does: at once, with one
/// byte of a kind (https://rfc.zeromq.org/spec/23/). Waits 2 s at most.
bool speaks_zeromq(const HostAndPort& listener, const std::stop_token& stop);

}  // namespace troupe
