#include "runtime/control/endpoint.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <charconv>
#include <chrono>

#include "runtime/fd.h"
#include "runtime/numeric_address.h"

namespace troupe {

std::string text_of(const HostAndPort& place) {
  const bool is_ipv6 = place.host.find(':') != std::string::npos;
  return is_ipv6 ? fmt::format("[{}]:{}", place.host, place.port)
                 : fmt::format("{}:{}", place.host, place.port);
}

std::string tcp_endpoint(const std::string& host, int port) {
  return "tcp://" + text_of({host, port});
}

std::optional<HostAndPort> parse_endpoint(const std::string& endpoint) {
  constexpr std::string_view scheme = "tcp://";
  const std::size_t colon = endpoint.rfind(':');
  if (endpoint.compare(0, scheme.size(), scheme) != 0 || colon < scheme.size()) return std::nullopt;
  HostAndPort parsed{endpoint.substr(scheme.size(), colon - scheme.size()), 0};
  if (parsed.host.size() > 2 && parsed.host.front() == '[' && parsed.host.back() == ']')
    parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  const char* begin = endpoint.data() + colon + 1;
  const char* end = endpoint.data() + endpoint.size();
  const auto [stop, error] = std::from_chars(begin, end, parsed.port);
  if (parsed.host.empty() || error != std::errc() || stop != end || parsed.port < 1 ||
      parsed.port > 65535)
    return std::nullopt;
  return parsed;
}

bool is_loopback(std::string_view host) {
  return host.starts_with("127.") || host == "::1" || host == "localhost" ||
         host.starts_with("localhost.");
}

Listener who_listens(const HostAndPort& place, const std::stop_token& stop) {
  constexpr std::chrono::milliseconds slice{100};
  constexpr int slices = 20;
  constexpr unsigned char greeting = 0xff;
  const Addresses target = numeric_address(place.host, std::to_string(place.port));
  if (!target) return Listener::nobody;
  const Fd asking(::socket(target->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!asking) return Listener::nobody;
  // When the process that accepted this connection ends, its port is free at once, not in a minute.
  const linger reset{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(asking.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  const timeval time{.tv_sec = 0, .tv_usec = std::chrono::microseconds(slice).count()};
  ::setsockopt(asking.get(), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  ::setsockopt(asking.get(), SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
  if (::connect(asking.get(), target->ai_addr, target->ai_addrlen) != 0)
    return errno == ECONNREFUSED ? Listener::nobody : Listener::other;
  unsigned char first = 0;
  ssize_t got = -1;
  for (int i = 0; i < slices && got < 0 && !stop.stop_requested(); ++i)
    got = ::recv(asking.get(), &first, 1, 0);
  return got == 1 && first == greeting ? Listener::zeromq : Listener::other;
}

}  // namespace troupe
