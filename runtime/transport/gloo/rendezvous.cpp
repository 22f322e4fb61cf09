// How the ranks of a Gloo group connect their side channels.

#include "runtime/transport/rendezvous.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/numeric_address.h"
#include "runtime/transport/gloo/mesh.h"
#include "runtime/transport/gloo/side_channel.h"

namespace troupe::transport {
namespace {

/// The first bytes on a connection, from both ends.
struct Hello {
  std::array<char, token_length> secret{};
  std::int32_t rank = 0;
};

std::string port_of(const Fd& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length);
  const auto port = address.ss_family == AF_INET6
                        ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                        : reinterpret_cast<const sockaddr_in&>(address).sin_port;
  return std::to_string(ntohs(port));
}

class TcpRendezvous final : public Rendezvous {
 public:
  TcpRendezvous(const TransportGroup& group, const std::string& secret)
      : Rendezvous(group, "gloo", more_open_files),
        own_{.rank = group.rank},
        sockets_(static_cast<std::size_t>(group.size)) {
    std::copy_n(secret.begin(), std::min(secret.size(), own_.secret.size()), own_.secret.begin());
  }

  std::vector<Fd> sockets() { return std::move(sockets_); }

 private:
  /// The address is a port and a numeric address.
  Result<std::string> listen(Fd& listener) override {
    const Addresses address = numeric_address(group().address, "0");
    if (!address)
      return Error(ErrorCode::io,
                   fmt::format("gloo: '{}' is not an address to listen on", group().address),
                   "set `interface` to an interface or an address of this host");
    listener = Fd(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener) return no_socket("making a socket");
    if (::bind(listener.get(), address->ai_addr, address->ai_addrlen) != 0)
      return no_socket("binding a socket");
    if (::listen(listener.get(), SOMAXCONN) != 0) return no_socket("listening on a socket");
    return port_of(listener) + " " + group().address;
  }

  Error unreachable(int peer, const std::string& address) const {
    return Error(ErrorCode::peer_lost,
                 fmt::format("gloo: rank {} cannot reach rank {} at {}: {}", group().rank, peer,
                             address, std::strerror(errno)),
                 "set `interface` to the one that reaches the other hosts");
  }

  Status connect(int peer, const std::string& value) override {
    const std::size_t space = value.find(' ');
    const Addresses address = space == std::string::npos ? Addresses(nullptr, &::freeaddrinfo)
                                                         : numeric_address(value.substr(space + 1),
                                                                           value.substr(0, space));
    if (!address)
      return Error(ErrorCode::io, fmt::format("gloo: rank {}'s address is '{}'", peer, value),
                   "start all ranks from the same version of the program");
    Fd socket(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return no_socket("making a socket");
    int error = 0;
    if (::connect(socket.get(), address->ai_addr, address->ai_addrlen) != 0) error = errno;
    if (error == EINPROGRESS) {
      if (!wait_for(socket, POLLOUT)) return missing(peer, "no connection");
      socklen_t length = sizeof error;
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    }
    errno = error;
    if (error != 0 || !send_hello(socket)) return unreachable(peer, value);
    if (!wait_for(socket, POLLIN)) return missing(peer, "no answer");
    if (receive_hello(socket) != peer)
      return Error(
          ErrorCode::peer_lost,
          fmt::format("gloo: rank {} has refused rank {} or has ended", peer, group().rank),
          "see that rank's log");
    sockets_[static_cast<std::size_t>(peer)] = std::move(socket);
    return success();
  }

  bool is_connected(int peer) const override {
    return bool(sockets_[static_cast<std::size_t>(peer)]);
  }

  void accept(Fd client) override {
    const auto rank = receive_hello(client);
    if (!rank || *rank <= group().rank || *rank >= group().size || is_connected(*rank)) return;
    if (send_hello(client)) sockets_[static_cast<std::size_t>(*rank)] = std::move(client);
  }

  bool send_hello(const Fd& socket) const {
    const int yes = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return ::send(socket.get(), &own_, sizeof own_, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof own_;
  }

  /// The rank of the hello that has arrived; none without the secret.
  std::optional<int> receive_hello(const Fd& socket) const {
    Hello hello;
    const ssize_t got = ::recv(socket.get(), &hello, sizeof hello, MSG_DONTWAIT);
    if (got != sizeof hello || hello.secret != own_.secret) return std::nullopt;
    return hello.rank;
  }

  Hello own_;
  std::vector<Fd> sockets_;
};

}  // namespace

std::vector<Fd> connect_side_channel(const TransportGroup& group, const std::string& secret) {
  TcpRendezvous rendezvous(group, secret);
  rendezvous.run().value();
  return rendezvous.sockets();
}

}  // namespace troupe::transport
