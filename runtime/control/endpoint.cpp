#include "runtime/control/endpoint.h"

#include <fmt/format.h>

#include <charconv>

namespace troupe {

std::string tcp_endpoint(const std::string& host, int port) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return is_ipv6 ? fmt::format("tcp://[{}]:{}", host, port)
                 : fmt::format("tcp://{}:{}", host, port);
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

}  // namespace troupe
