// How the ranks of a host find each other: see connect_all.

#include "runtime/transport/meeting.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/transport/shm/wire.h"

namespace troupe::transport {
namespace {

using Wires = std::vector<std::shared_ptr<Wire>>;

/// An abstract name: nothing on disk, and gone with the process. Seen by its network namespace,
/// which is why same_host() compares those.
std::pair<sockaddr_un, socklen_t> address_of(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string full = "troupe-" + name;
  std::memcpy(address.sun_path + 1, full.data(), full.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + full.size())};
}

class ShmMeeting final : public Meeting {
 public:
  ShmMeeting(Group group, int bell)
      : Meeting(std::move(group)),
        bell_(bell),
        wires_(static_cast<std::size_t>(Meeting::group().size)) {}

  Wires wires() { return std::move(wires_); }

 private:
  /// Reached by a name and a token behind it.
  Result<std::string> listen(Fd& listener) override {
    const std::string name = random_word();
    token_ = random_word();
    listener = Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener) return no_socket("making a Unix socket");
    const auto [address, length] = address_of(name);
    if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
      return no_socket("naming a Unix socket");
    if (::listen(listener.get(), SOMAXCONN) != 0) return no_socket("listening on a Unix socket");
    return name + token_;
  }

  Status call(int peer, const std::string& value) override {
    if (value.size() != 2 * letters_of_a_word)
      return Error(ErrorCode::io, fmt::format("shm: rank {}'s address is '{}'", peer, value));
    Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!socket) return no_socket("making a Unix socket");
    const auto [address, length] = address_of(value.substr(0, letters_of_a_word));
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
      return Error(ErrorCode::peer_lost,
                   fmt::format("shm: rank {} cannot reach rank {} by a Unix socket: {}",
                               group().rank, peer, std::strerror(errno)),
                   "where the two are in different containers, set parallel.transport: gloo");
    Note hello;
    hello.number = static_cast<std::uint32_t>(group().rank);
    hello.text = value.substr(letters_of_a_word);
    if (send_note(socket.get(), hello, {bell_}) != SendOutcome::sent)
      return no_socket("sending on a Unix socket");
    return answered(peer, std::move(socket));
  }

  /// The lower rank makes the memory of the pair and sends it back.
  Status answered(int peer, Fd socket) {
    if (!await(socket, POLLIN)) return missing(peer, "no answer");
    Note answer;
    const ReceiveOutcome outcome = receive_note(socket.get(), answer);
    if (outcome != ReceiveOutcome::received || answer.kind != Note::Kind::hello ||
        answer.fds.size() != 2)
      return Error(ErrorCode::peer_lost,
                   fmt::format("shm: rank {} turned rank {} away or ended", peer, group().rank));
    auto memory = SharedMemory::open(std::move(answer.fds[1]), sizeof(PairMemory));
    wires_[static_cast<std::size_t>(peer)] =
        std::make_shared<Wire>(std::move(socket), std::move(answer.fds[0]), std::move(memory), 1);
    return success();
  }

  bool has_met(int peer) const override {
    return wires_[static_cast<std::size_t>(peer)] != nullptr;
  }

  void greet(Fd caller) override {
    Note hello;
    if (receive_note(caller.get(), hello) != ReceiveOutcome::received) return;
    const auto peer = static_cast<std::size_t>(hello.number);
    if (hello.kind != Note::Kind::hello || hello.text != token_ || hello.fds.size() != 1 ||
        peer <= static_cast<std::size_t>(group().rank) || peer >= wires_.size() || wires_[peer])
      return;
    auto memory = SharedMemory::create(sizeof(PairMemory));
    Note answer;
    answer.number = static_cast<std::uint32_t>(group().rank);
    if (send_note(caller.get(), answer, {bell_, memory->fd()}) != SendOutcome::sent) return;
    wires_[peer] =
        std::make_shared<Wire>(std::move(caller), std::move(hello.fds[0]), std::move(memory), 0);
  }

  const int bell_;
  Wires wires_;
  std::string token_;
};

}  // namespace

Result<Wires> connect_all(Store& store, int rank, int size, const std::string& group,
                          std::chrono::milliseconds timeout, int own_bell) {
  try {
    ShmMeeting meeting({"shm", store, rank, size, group, timeout,
                        "where Unix sockets are forbidden, set parallel.transport: gloo"},
                       own_bell);
    if (Status met = meeting.run(); !met) return met.error();
    return meeting.wires();
  } catch (const Error& error) {
    return error;
  }
}

}  // namespace troupe::transport
