// How the ranks of a Gloo group connect for their words.

#include "runtime/transport/meeting.h"

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

#include "runtime/control/interface.h"
#include "runtime/numeric_address.h"
#include "runtime/transport/gloo/mesh.h"
#include "runtime/transport/gloo/words.h"

namespace troupe::transport {
namespace {

/// The first bytes on a connection, from both ends.
struct Hello {
  std::array<char, letters_of_a_word> secret{};
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

class TcpMeeting final : public Meeting {
 public:
  TcpMeeting(Group group, std::string host, const std::string& secret)
      : Meeting(std::move(group)),
        host_(std::move(host)),
        own_{.rank = Meeting::group().rank},
        sockets_(static_cast<std::size_t>(Meeting::group().size)) {
    std::copy_n(secret.begin(), std::min(secret.size(), own_.secret.size()), own_.secret.begin());
  }

  std::vector<Fd> sockets() { return std::move(sockets_); }

 private:
  /// Reached by a port and an address.
  Result<std::string> listen(Fd& listener) override {
    const Addresses address = numeric_address(host_, "0");
    if (!address)
      return Error(ErrorCode::io, fmt::format("gloo: '{}' is no address to listen on", host_),
                   "name an interface or an address of this host with parallel.interface");
    listener = Fd(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener) return no_socket("making a socket");
    if (::bind(listener.get(), address->ai_addr, address->ai_addrlen) != 0)
      return no_socket("binding a socket");
    if (::listen(listener.get(), SOMAXCONN) != 0) return no_socket("listening on a socket");
    return port_of(listener) + " " + host_;
  }

  Error unreachable(int peer, const std::string& address) const {
    return Error(ErrorCode::peer_lost,
                 fmt::format("gloo: rank {} cannot reach rank {} at {}: {}", group().rank, peer,
                             address, std::strerror(errno)),
                 "name the interface that reaches the other hosts with parallel.interface");
  }

  Status call(int peer, const std::string& value) override {
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
      if (!await(socket, POLLOUT)) return missing(peer, "no connection");
      socklen_t length = sizeof error;
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    }
    errno = error;
    if (error != 0 || !greeted(socket)) return unreachable(peer, value);
    if (!await(socket, POLLIN)) return missing(peer, "no answer");
    if (rank_behind(socket) != peer)
      return Error(ErrorCode::peer_lost,
                   fmt::format("gloo: rank {} turned rank {} away or ended", peer, group().rank),
                   "see that rank's log");
    sockets_[static_cast<std::size_t>(peer)] = std::move(socket);
    return success();
  }

  bool has_met(int peer) const override { return bool(sockets_[static_cast<std::size_t>(peer)]); }

  void greet(Fd caller) override {
    const auto rank = rank_behind(caller);
    if (!rank || *rank <= group().rank || *rank >= group().size || has_met(*rank)) return;
    if (greeted(caller)) sockets_[static_cast<std::size_t>(*rank)] = std::move(caller);
  }

  bool greeted(const Fd& socket) const {
    const int at_once = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    return ::send(socket.get(), &own_, sizeof own_, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof own_;
  }

  /// The rank that has just said hello; none if a stranger has.
  std::optional<int> rank_behind(const Fd& socket) const {
    Hello hello;
    const ssize_t got = ::recv(socket.get(), &hello, sizeof hello, MSG_DONTWAIT);
    if (got != sizeof hello || hello.secret != own_.secret) return std::nullopt;
    return hello.rank;
  }

  const std::string host_;
  Hello own_;
  std::vector<Fd> sockets_;
};

}  // namespace

std::vector<Fd> connect_words(Store& store, int rank, int size, const GlooOptions& options,
                              const std::string& secret) {
  TcpMeeting meeting(
      {"gloo", store, rank, size, options.group + "/words", options.timeout, more_open_files},
      address_of_interface(options.interface), secret);
  meeting.run().value();
  return meeting.sockets();
}

}  // namespace troupe::transport
