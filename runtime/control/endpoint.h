#pragma once
// Endpoints as text.

#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

namespace troupe {

struct HostAndPort {
  std::string host;  ///< a name or an address, without brackets
  int port = 0;
};

/// "127.0.0.1:29400", "[fd00::7]:29400".
std::string text_of(const HostAndPort& place);

/// "tcp://127.0.0.1:29400", "tcp://[fd00::7]:29400".
std::string tcp_endpoint(const std::string& host, int port);

/// The inverse of tcp_endpoint; nothing for other texts.
std::optional<HostAndPort> parse_endpoint(const std::string& endpoint);

/// Whether a host name or address means the machine itself: 127.0.0.0/8, ::1, localhost.
bool is_loopback(std::string_view host);

/// What listens on a port.
enum class Listener {
  nobody,
  zeromq,  ///< sends ZeroMQ's greeting: at once, beginning with 0xff
           ///< (https://rfc.zeromq.org/spec/23/)
  other,   ///< sends something else, or nothing within 2 s
};

/// Connects to find out. Afterwards the port can be bound again at once.
Listener who_listens(const HostAndPort& place, const std::stop_token& stop);

}  // namespace troupe
