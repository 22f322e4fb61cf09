#include "apps/launch/own_address.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "runtime/control/endpoint.h"
#include "runtime/control/interface.h"
#include "runtime/error.h"
#include "runtime/text.h"
#include "runtime/world/world.h"

namespace troupe {
namespace {

/// The address of this machine that the endpoint means, if it means this machine. A machine's own
/// name often leads to its loopback, where no other host would come: then the first address that
/// others can reach.
std::optional<std::string> own_address_of(const HostAndPort& endpoint) {
  const auto interfaces = network_interfaces();
  const auto is_own = [&](const std::string& address) {
    return is_loopback(address) ||
           std::any_of(interfaces.begin(), interfaces.end(),
                       [&](const auto& own) { return own.address == address; });
  };
  const auto addresses = addresses_of_host(endpoint.host);
  const auto found = std::find_if(addresses.begin(), addresses.end(), is_own);
  if (found == addresses.end()) return std::nullopt;
  const bool meant = is_loopback(endpoint.host);
  if (!is_loopback(*found) || meant) return *found;
  for (const auto& own : interfaces)
    if (!is_loopback(own.address)) return own.address;
  return *found;
}

/// The address of --local-addr, which is a name, an address or an interface of this host.
std::string local_address_of(const std::string& given) {
  const auto interfaces = network_interfaces();
  const auto has = [&](const std::string& place) {
    return std::ranges::find(interfaces, place, &NetworkInterface::name) != interfaces.end() ||
           std::ranges::find(interfaces, place, &NetworkInterface::address) != interfaces.end();
  };
  if (has(given)) return address_of_interface(given);
  if (const auto own = own_address_of({given}); own && has(*own)) return *own;
  std::vector<std::string> known;
  known.reserve(interfaces.size());
  for (const auto& [name, address] : interfaces)
    known.push_back(fmt::format("{} ({})", address, name));
  throw Error(ErrorCode::bad_options,
              fmt::format("launch: --local-addr {} is not an address of {}; it has {}", given,
                          host_name(), listed(known, 16)),
              "give one of these, or omit the flag");
}

}  // namespace

OwnAddress own_address(const LaunchOptions& options) {
  const auto own = own_address_of(*options.endpoint);
  const std::string address = !options.local_address.empty()
                                  ? local_address_of(options.local_address)
                              : own ? *own
                                    : address_towards(options.endpoint->host);
  return {address, own.has_value()};
}

}  // namespace troupe
