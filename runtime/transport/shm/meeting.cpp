// How the ranks of a host find each other: see connect_all.

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/transport/shm/wire.h"

namespace troupe::transport {
namespace {

using Clock = std::chrono::steady_clock;
using Wires = std::vector<std::shared_ptr<Wire>>;
constexpr std::size_t word = 32;  ///< letters of a name or token, 128 bits

std::string random_word() {
  unsigned char bytes[word / 2];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    throw Error(ErrorCode::io, "shm: the system gives no random numbers");
  return fmt::format("{:02x}", fmt::join(bytes, bytes + sizeof bytes, ""));
}

Error no_socket(const char* what) {
  return Error(ErrorCode::io, fmt::format("shm: {}: {}", what, std::strerror(errno)),
               "where Unix sockets are forbidden, set parallel.transport: gloo");
}

/// An abstract name: nothing on disk, and gone with the process. Seen by its network namespace,
/// which is why same_host() compares those.
std::pair<sockaddr_un, socklen_t> address_of(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string full = "troupe-" + name;
  std::memcpy(address.sun_path + 1, full.data(), full.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + full.size())};
}

class Meeting {
 public:
  Meeting(Store& store, int rank, int size, std::string group, std::chrono::milliseconds timeout,
          int bell)
      : store_(store),
        rank_(rank),
        size_(size),
        group_(std::move(group)),
        timeout_(timeout),
        deadline_(Clock::now() + timeout),
        bell_(bell),
        wires_(static_cast<std::size_t>(size)) {}

  Result<Wires> run() {
    if (Status listening = listen(); !listening) return listening.error();
    for (int peer = 0; peer < rank_; ++peer)
      if (Status connected = connect(peer); !connected) return connected.error();
    if (Status accepted = accept_all(); !accepted) return accepted.error();
    return std::move(wires_);
  }

 private:
  std::string key(int rank) const { return fmt::format("{}/{}", group_, rank); }
  std::chrono::milliseconds left() const {
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now());
    return std::max(rest, std::chrono::milliseconds(0));
  }

  Status listen() {
    const std::string name = random_word();
    token_ = random_word();
    listener_ = Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener_) return no_socket("making a Unix socket");
    const auto [address, length] = address_of(name);
    if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
      return no_socket("naming a Unix socket");
    if (::listen(listener_.get(), SOMAXCONN) != 0) return no_socket("listening on a Unix socket");
    return store_.put(key(rank_), name + token_);
  }

  Error missing(int peer, const std::string& detail) const {
    return Error(ErrorCode::timed_out,
                 fmt::format("shm: rank {} of {} has not met rank {} within {}: {}", peer, size_,
                             rank_, timeout_, detail),
                 "see that rank's log; parallel.timeout is the time to wait "
                 "(in a program: TransportOptions::timeout)");
  }

  Status connect(int peer) {
    Result<std::string> value = store_.get(key(peer), left());
    if (!value)
      return value.error().code() == ErrorCode::timed_out ? missing(peer, value.error().message())
                                                          : value.error();
    if (value.value().size() != 2 * word)
      return Error(ErrorCode::io,
                   fmt::format("shm: rank {}'s address is '{}'", peer, value.value()));
    Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!socket) return no_socket("making a Unix socket");
    const auto [address, length] = address_of(value.value().substr(0, word));
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
      return Error(ErrorCode::peer_lost,
                   fmt::format("shm: rank {} cannot reach rank {} by a Unix socket: {}", rank_,
                               peer, std::strerror(errno)),
                   "where the two are in different containers, set parallel.transport: gloo");
    Note hello;
    hello.number = static_cast<std::uint32_t>(rank_);
    hello.text = value.value().substr(word);
    if (send_note(socket.get(), hello, {bell_}) != SendOutcome::sent)
      return no_socket("sending on a Unix socket");
    return answered(peer, std::move(socket));
  }

  /// The lower rank makes the memory of the pair and sends it back.
  Status answered(int peer, Fd socket) {
    pollfd wait{socket.get(), POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(left().count())) == 0) return missing(peer, "no answer");
    Note answer;
    const ReceiveOutcome outcome = receive_note(socket.get(), answer);
    if (outcome != ReceiveOutcome::received || answer.kind != Note::Kind::hello ||
        answer.fds.size() != 2)
      return Error(ErrorCode::peer_lost,
                   fmt::format("shm: rank {} turned rank {} away or ended", peer, rank_));
    auto memory = SharedMemory::open(std::move(answer.fds[1]), sizeof(PairMemory));
    wires_[static_cast<std::size_t>(peer)] =
        std::make_shared<Wire>(std::move(socket), std::move(answer.fds[0]), std::move(memory), 1);
    return success();
  }

  int still_missing() const {
    for (int peer = rank_ + 1; peer < size_; ++peer)
      if (!wires_[static_cast<std::size_t>(peer)]) return peer;
    return -1;
  }

  /// Strangers may connect: whoever does not know the token is let go, and holds up nobody. Who
  /// says nothing is let go when others want the room, longest first.
  Status accept_all() {
    constexpr std::size_t spare_callers = 64;
    std::vector<Fd> callers;
    while (still_missing() >= 0) {
      if (left().count() == 0) return missing(still_missing(), "no call");
      std::vector<pollfd> waits{{listener_.get(), POLLIN, 0}};
      for (const Fd& caller : callers) waits.push_back({caller.get(), POLLIN, 0});
      const int count = ::poll(waits.data(), waits.size(), static_cast<int>(left().count()));
      if (count == 0) continue;
      if (count < 0 && errno != EINTR) return no_socket("waiting on a Unix socket");
      for (std::size_t i = callers.size(); i-- > 0;) {
        if (waits[i + 1].revents == 0) continue;
        Fd caller = std::move(callers[i]);
        callers.erase(callers.begin() + static_cast<std::ptrdiff_t>(i));
        greet(std::move(caller));
      }
      if (waits[0].revents == 0) continue;
      Fd caller(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!caller && (errno == EMFILE || errno == ENFILE) && callers.empty())
        return no_socket("taking a call on a Unix socket");
      if (!caller || callers.size() == wires_.size() + spare_callers)
        if (!callers.empty()) callers.erase(callers.begin());
      if (caller) callers.push_back(std::move(caller));
    }
    return success();
  }

  void greet(Fd caller) {
    Note hello;
    if (receive_note(caller.get(), hello) != ReceiveOutcome::received) return;
    const auto peer = static_cast<std::size_t>(hello.number);
    if (hello.kind != Note::Kind::hello || hello.text != token_ || hello.fds.size() != 1 ||
        peer <= static_cast<std::size_t>(rank_) || peer >= wires_.size() || wires_[peer])
      return;
    auto memory = SharedMemory::create(sizeof(PairMemory));
    Note answer;
    answer.number = static_cast<std::uint32_t>(rank_);
    if (send_note(caller.get(), answer, {bell_, memory->fd()}) != SendOutcome::sent) return;
    wires_[peer] =
        std::make_shared<Wire>(std::move(caller), std::move(hello.fds[0]), std::move(memory), 0);
  }

  Store& store_;
  const int rank_, size_;
  const std::string group_;
  const std::chrono::milliseconds timeout_;
  const Clock::time_point deadline_;
  const int bell_;
  Wires wires_;
  Fd listener_;
  std::string token_;
};

}  // namespace

Result<Wires> connect_all(Store& store, int rank, int size, const std::string& group,
                          std::chrono::milliseconds timeout, int own_bell) {
  try {
    return Meeting(store, rank, size, group, timeout, own_bell).run();
  } catch (const Error& error) {
    return error;
  }
}

}  // namespace troupe::transport
