// How the ranks of a host connect: see connect_peers.

#include "runtime/transport/rendezvous.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/transport/shm/peer_connection.h"

namespace troupe::transport {
namespace {

using PeerConnections = std::vector<std::shared_ptr<PeerConnection>>;

/// An abstract name: it needs no file and ends with the process. Only its network namespace sees
/// it, so host_identity() includes that.
std::pair<sockaddr_un, socklen_t> address_of(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string full = "troupe-" + name;
  std::memcpy(address.sun_path + 1, full.data(), full.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + full.size())};
}

class ShmRendezvous final : public Rendezvous {
 public:
  ShmRendezvous(const TransportGroup& group, int bell)
      : Rendezvous(group, "shm", "where Unix sockets are forbidden, set `transport` to gloo"),
        bell_(bell),
        wires_(static_cast<std::size_t>(group.size)) {}

  PeerConnections connections() { return std::move(wires_); }

 private:
  /// The address is the name of the socket, followed by a token.
  Result<std::string> listen(Fd& listener) override {
    const std::string name = random_token();
    token_ = random_token();
    listener = Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener) return no_socket("making a Unix socket");
    const auto [address, length] = address_of(name);
    if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
      return no_socket("naming a Unix socket");
    if (::listen(listener.get(), SOMAXCONN) != 0) return no_socket("listening on a Unix socket");
    return name + token_;
  }

  Status connect(int peer, const std::string& value) override {
    if (value.size() != 2 * token_length)
      return Error(ErrorCode::io, fmt::format("shm: rank {}'s address is '{}'", peer, value));
    Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!socket) return no_socket("making a Unix socket");
    const auto [address, length] = address_of(value.substr(0, token_length));
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
      return Error(ErrorCode::peer_lost,
                   fmt::format("shm: rank {} cannot reach rank {} by a Unix socket: {}",
                               group().rank, peer, std::strerror(errno)),
                   "where the two are in different containers, set `transport` to gloo");
    Signal hello;
    hello.number = static_cast<std::uint32_t>(group().rank);
    hello.text = value.substr(token_length);
    if (send_signal(socket.get(), hello, {bell_}) != SendOutcome::sent)
      return no_socket("sending on a Unix socket");
    return take_answer(peer, std::move(socket));
  }

  /// The lower rank makes the memory of the pair and sends it back.
  Status take_answer(int peer, Fd socket) {
    if (!wait_for(socket, POLLIN)) return missing(peer, "no answer");
    Signal answer;
    const ReceiveOutcome outcome = receive_signal(socket.get(), answer);
    if (outcome == ReceiveOutcome::no_descriptor) {
      errno = EMFILE;
      return no_socket("taking shared memory from a Unix socket");
    }
    if (outcome != ReceiveOutcome::received || answer.kind != Signal::Kind::hello ||
        answer.fds.size() != 2)
      return Error(
          ErrorCode::peer_lost,
          fmt::format("shm: rank {} has refused rank {} or has ended", peer, group().rank));
    auto memory = SharedMemory::open(std::move(answer.fds[1]), sizeof(PairMemory));
    wires_[static_cast<std::size_t>(peer)] = std::make_shared<PeerConnection>(
        std::move(socket), std::move(answer.fds[0]), std::move(memory), 1);
    return success();
  }

  bool is_connected(int peer) const override {
    return wires_[static_cast<std::size_t>(peer)] != nullptr;
  }

  void accept(Fd client) override {
    Signal hello;
    const ReceiveOutcome outcome = receive_signal(client.get(), hello);
    if (outcome == ReceiveOutcome::no_descriptor) {
      errno = EMFILE;
      throw no_socket("taking a descriptor from a Unix socket");
    }
    if (outcome != ReceiveOutcome::received) return;
    const auto peer = static_cast<std::size_t>(hello.number);
    if (hello.kind != Signal::Kind::hello || hello.text != token_ || hello.fds.size() != 1 ||
        peer <= static_cast<std::size_t>(group().rank) || peer >= wires_.size() || wires_[peer])
      return;
    auto memory = SharedMemory::create(sizeof(PairMemory));
    Signal answer;
    answer.number = static_cast<std::uint32_t>(group().rank);
    if (send_signal(client.get(), answer, {bell_, memory->fd()}) != SendOutcome::sent) return;
    wires_[peer] = std::make_shared<PeerConnection>(std::move(client), std::move(hello.fds[0]),
                                                    std::move(memory), 0);
  }

  const int bell_;
  PeerConnections wires_;
  std::string token_;
};

}  // namespace

Result<PeerConnections> connect_peers(const TransportGroup& group, int own_bell) {
  try {
    ShmRendezvous rendezvous(group, own_bell);
    if (Status connected = rendezvous.run(); !connected) return connected.error();
    return rendezvous.connections();
  } catch (const Error& error) {
    return error;
  }
}

}  // namespace troupe::transport
