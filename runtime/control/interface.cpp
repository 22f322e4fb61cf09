#include "runtime/control/interface.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>

#include "runtime/error.h"
#include "runtime/numeric_address.h"
#include "runtime/text.h"

namespace troupe {
namespace {

std::string text_of(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return {};
  return text.data();
}

socklen_t length_of(const sockaddr* address) {
  return address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

Addresses resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int rc = getaddrinfo(host.c_str(), "29400", &hints, &found); rc != 0)
    throw Error(ErrorCode::io,
                fmt::format("the host '{}' has no address: {}", host, gai_strerror(rc)),
                "check its spelling and /etc/hosts, or give its address");
  return {found, freeaddrinfo};
}

/// The addresses behind a name, IPv4 first (see addresses_of_host).
std::vector<const addrinfo*> preferred(const Addresses& found) {
  std::vector<const addrinfo*> order;
  for (const int family : {AF_INET, AF_INET6})
    for (const addrinfo* entry = found.get(); entry != nullptr; entry = entry->ai_next)
      if (entry->ai_family == family) order.push_back(entry);
  return order;
}

/// The local address of a datagram socket connected to `target`; empty if nothing leads there.
std::string local_address(const addrinfo& target) {
  const int fd = socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return {};
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  std::string text;
  if (connect(fd, target.ai_addr, target.ai_addrlen) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length) == 0)
    text = text_of(reinterpret_cast<const sockaddr*>(&local), length);
  close(fd);
  return text;
}

}  // namespace

std::vector<NetworkInterface> network_interfaces() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0)
    throw Error(ErrorCode::io,
                fmt::format("cannot list the network interfaces: {}", std::strerror(errno)));
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(first, freeifaddrs);
  std::vector<NetworkInterface> found;
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next)
      if (entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == family &&
          (entry->ifa_flags & IFF_UP) != 0)
        found.push_back({entry->ifa_name, text_of(entry->ifa_addr, length_of(entry->ifa_addr))});
  return found;
}

std::string address_of_interface(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& [interface, address] : network_interfaces()) {
    if (interface == name || address == name) return address;
    const std::string entry = fmt::format("{} ({})", interface, address);
    if (std::find(known.begin(), known.end(), entry) == known.end()) known.push_back(entry);
  }
  throw Error(ErrorCode::bad_options,
              fmt::format("there is no network interface '{}' on {}; there is {}", name,
                          host_name(), listed(known, 16)),
              "set `interface` to one of them, or leave it out");
}

std::string address_towards(const std::string& host) {
  const Addresses targets = resolve(host);
  for (const addrinfo* target : preferred(targets))
    if (std::string address = local_address(*target); !address.empty()) return address;
  throw Error(ErrorCode::io, fmt::format("no network leads from {} to '{}'", host_name(), host),
              "check the name of the coordinator's host, or set `interface`");
}

std::vector<std::string> addresses_of_host(const std::string& host) {
  const Addresses targets = resolve(host);
  std::vector<std::string> addresses;
  for (const addrinfo* target : preferred(targets))
    addresses.push_back(text_of(target->ai_addr, target->ai_addrlen));
  return addresses;
}

std::string host_identity(const std::filesystem::path& root) {
  std::string boot;
  std::ifstream(root / "proc/sys/kernel/random/boot_id") >> boot;
  std::error_code error;
  const auto space = std::filesystem::read_symlink(root / "proc/self/ns/net", error);
  if (!boot.empty() && !error) return fmt::format("{}/{}", boot, space.string());
  std::random_device random;
  return fmt::format("unknown/{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

}  // namespace troupe
