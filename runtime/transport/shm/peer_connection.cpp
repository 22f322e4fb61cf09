#include "runtime/transport/shm/peer_connection.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace troupe::transport {
namespace {

constexpr std::uint32_t magic = 0x74727032;  // "trp2": another version is another number
constexpr std::size_t longest_text = 4000;
constexpr std::size_t most_fds = 2;

struct SignalHeader {
  std::uint32_t magic = 0;
  std::uint32_t number = 0;
  std::uint64_t bytes = 0;
  std::uint32_t kind = 0;
  std::uint32_t text = 0;
};

union Ancillary {
  cmsghdr align;
  char space[CMSG_SPACE(most_fds * sizeof(int))];
};

std::vector<Fd> fds_of(msghdr& message) {
  std::vector<Fd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

bool is_full(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS; }

}  // namespace

SendOutcome send_signal(int socket, const Signal& signal, std::vector<int> fds) {
  const std::string text = signal.text.substr(0, longest_text);
  SignalHeader header{magic, signal.number, signal.bytes, static_cast<std::uint32_t>(signal.kind),
                      static_cast<std::uint32_t>(text.size())};
  iovec parts[2] = {{&header, sizeof header}, {const_cast<char*>(text.data()), text.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  Ancillary ancillary{};
  if (!fds.empty()) {
    message.msg_control = ancillary.space;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(part), fds.data(), fds.size() * sizeof(int));
  }
  for (;;) {
    if (::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return SendOutcome::sent;
    if (errno == EINTR) continue;
    return is_full(errno) ? SendOutcome::full : SendOutcome::gone;
  }
}

ReceiveOutcome receive_signal(int socket, Signal& signal) {
  SignalHeader header;
  char text[longest_text];
  iovec parts[2] = {{&header, sizeof header}, {text, sizeof text}};
  Ancillary ancillary{};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  message.msg_control = ancillary.space;
  message.msg_controllen = sizeof ancillary.space;
  ssize_t length = 0;
  do length = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (length < 0 && errno == EINTR);
  if (length < 0)
    return errno == EAGAIN || errno == EWOULDBLOCK ? ReceiveOutcome::none : ReceiveOutcome::gone;
  signal.fds = fds_of(message);
  if (length == 0) return ReceiveOutcome::gone;
  const auto size = static_cast<std::size_t>(length);
  // The kernel drops descriptors for which this process has no number left.
  if ((message.msg_flags & MSG_CTRUNC) != 0 && signal.fds.size() < most_fds)
    return ReceiveOutcome::no_descriptor;
  if (size < sizeof header || header.magic != magic || header.text != size - sizeof header ||
      (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
    return ReceiveOutcome::damaged;
  if (header.kind < static_cast<std::uint32_t>(Signal::Kind::hello) ||
      header.kind > static_cast<std::uint32_t>(Signal::Kind::closing))
    return ReceiveOutcome::damaged;
  signal.kind = static_cast<Signal::Kind>(header.kind);
  signal.number = header.number;
  signal.bytes = header.bytes;
  signal.text.assign(text, header.text);
  return ReceiveOutcome::received;
}

/// Lowers the flag before it rings, so that one sleep costs one ring.
void PeerConnection::wake(std::atomic<std::uint32_t>& flag) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (flag.load(std::memory_order_relaxed) == 0 || flag.exchange(0) == 0) return;
  const std::uint64_t one = 1;
  (void)!::write(peer_bell_.get(), &one, sizeof one);  // fails only where the bell rings already
}

}  // namespace troupe::transport
