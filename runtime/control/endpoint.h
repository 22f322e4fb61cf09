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

/// Who has a port of this machine.
enum class Listener {
  nobody,  ///< or one that is not listening yet, or any more
  zeromq,  ///< greets as ZeroMQ does: at once, beginning with 0xff
           ///< (https://rfc.zeromq.org/spec/23/)
  other,   ///< greets with anything else, or not within 2 s
};

/// Connects to find out, and leaves nothing behind that would keep the port from being used again.
Listener who_listens(const HostAndPort& place, const std::stop_token& stop);

}  // namespace troupe
