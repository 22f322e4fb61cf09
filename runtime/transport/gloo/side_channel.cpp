#include "runtime/transport/gloo/side_channel.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "runtime/quiet_thread.h"
#include "runtime/transport/gloo/mesh.h"

namespace troupe::transport {
namespace {

using Clock = std::chrono::steady_clock;

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK; }

Error no_events() {
  return {ErrorCode::io, std::string("gloo: waiting for control messages: ") + std::strerror(errno),
          more_open_files};
}

/// The number of bytes that the system accepted; 0 with errno if the connection has ended.
std::size_t send_now(int socket, SideChannel::Text head, SideChannel::Text text) {
  std::array<iovec, 2> parts{iovec{const_cast<std::byte*>(head.data()), head.size()},
                             iovec{const_cast<std::byte*>(text.data()), text.size()}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = text.empty() ? 1 : 2;
  errno = 0;
  ssize_t sent = 0;
  do sent = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent < 0 ? 0 : static_cast<std::size_t>(sent);
}

}  // namespace

SideChannel::SideChannel(const TransportGroup& group, const std::string& secret)
    : events_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!events_) throw no_events();
  for (Fd& socket : connect_side_channel(group, secret)) {
    lines_.push_back(socket ? std::make_unique<Line>() : nullptr);
    if (socket) lines_.back()->socket = std::move(socket);
  }
}

void SideChannel::close() {
  cut();
  if (thread_.joinable()) thread_.join();
}

void SideChannel::listen(Listener listener) {
  listener_ = std::move(listener);
  for (std::size_t rank = 0; rank < lines_.size(); ++rank) {
    if (!lines_[rank]) continue;
    epoll_event event{.events = EPOLLIN, .data = {.u64 = rank}};
    if (::epoll_ctl(events_.get(), EPOLL_CTL_ADD, lines_[rank]->socket.get(), &event) != 0)
      throw no_events();
  }
  thread_ = quiet_thread([this] { serve(); });
}

void SideChannel::watch(int rank, bool for_room) {
  epoll_event event{.events = for_room ? EPOLLIN | EPOLLOUT : EPOLLIN,
                    .data = {.u64 = static_cast<std::uint64_t>(rank)}};
  ::epoll_ctl(events_.get(), EPOLL_CTL_MOD, at(rank).socket.get(), &event);
}

void SideChannel::send(int to, ControlMessage message, Text text) {
  Line& line = at(to);
  message.text_bytes = static_cast<std::uint32_t>(text.size());
  const Text head(reinterpret_cast<const std::byte*>(&message), sizeof message);
  const std::lock_guard lock(line.mutex);
  if (line.gone) return;
  const bool waits = !line.unsent.empty();
  const std::size_t sent = waits ? 0 : send_now(line.socket.get(), head, text);
  if (sent == head.size() + text.size()) return;
  if (!waits && sent == 0 && !would_block()) {
    line.gone = true;  // the receiving thread notices that
    return;
  }
  line.unsent.insert(line.unsent.end(), head.begin(), head.end());
  line.unsent.insert(line.unsent.end(), text.begin(), text.end());
  line.unsent.erase(line.unsent.begin(), line.unsent.begin() + static_cast<std::ptrdiff_t>(sent));
  if (!waits) watch(to, true);
}

void SideChannel::push(Line& line) {
  while (!line.unsent.empty() && !line.gone) {
    const std::size_t sent = send_now(line.socket.get(), line.unsent, {});
    if (sent == 0) {
      line.gone = !would_block();
      return;
    }
    line.unsent.erase(line.unsent.begin(), line.unsent.begin() + static_cast<std::ptrdiff_t>(sent));
  }
}

void SideChannel::flush(int to, Clock::time_point until) {
  Line& line = at(to);
  const auto left = [&] {
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    return static_cast<int>(std::max<std::int64_t>(rest.count(), 0));
  };
  std::unique_lock lock(line.mutex);
  for (push(line); !line.unsent.empty() && !line.gone && left() > 0; push(line)) {
    lock.unlock();
    pollfd room{line.socket.get(), POLLOUT, 0};
    ::poll(&room, 1, left());
    lock.lock();
  }
  if (line.gone) return;
  lock.unlock();  // the receiving thread may need it before it reads what the peer sends
  // A connection that is closed with bytes under way drops them if the peer sends anything more.
  for (int queued = 0; left() > 0;) {
    pollfd end{line.socket.get(), 0, 0};
    if (::ioctl(line.socket.get(), SIOCOUTQ, &queued) != 0 || queued == 0) return;
    if (::poll(&end, 1, 1) > 0) return;  // the connection has ended
  }
}

void SideChannel::cut() {
  for (const auto& line : lines_)
    if (line) ::shutdown(line->socket.get(), SHUT_RDWR);
}

void SideChannel::serve() {
  auto open = std::count_if(lines_.begin(), lines_.end(), [](auto& line) { return bool(line); });
  std::array<epoll_event, 64> events{};
  while (open > 0) {
    const int count =
        ::epoll_wait(events_.get(), events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      const int rank = static_cast<int>(event.data.u64);
      Line& line = at(rank);
      if ((event.events & EPOLLOUT) != 0) {
        const std::lock_guard lock(line.mutex);
        push(line);
        if (line.unsent.empty() || line.gone) watch(rank, false);
      }
      if ((event.events & ~EPOLLOUT) == 0 || read(rank)) continue;
      ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, line.socket.get(), nullptr);
      --open;
    }
  }
}

bool SideChannel::read(int from) {
  Line& line = at(from);
  constexpr std::size_t at_once = std::size_t{16} << 10;
  const std::size_t before = line.received.size();
  try {
    line.received.resize(before + at_once);
    const ssize_t got =
        ::recv(line.socket.get(), line.received.data() + before, at_once, MSG_DONTWAIT);
    line.received.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && (would_block() || errno == EINTR)) return true;
    if (got < 0) throw std::runtime_error(std::strerror(errno));
    if (got == 0) throw std::runtime_error("its connection has ended");
    return take_messages(from);
  } catch (const std::exception& error) {
    listener_.on_lost(from, error);
    return false;
  }
}

bool SideChannel::take_messages(int from) {
  std::vector<std::byte>& received = at(from).received;
  std::size_t begin = 0;
  bool more = true;
  while (more && received.size() - begin >= sizeof(ControlMessage)) {
    ControlMessage message;
    std::memcpy(&message, received.data() + begin, sizeof message);
    if (message.text_bytes > max_text_bytes)
      throw std::runtime_error("it sent an invalid control message");
    if (received.size() - begin < sizeof message + message.text_bytes) break;
    more = listener_.on_message(from, message,
                                {received.data() + begin + sizeof message, message.text_bytes});
    begin += sizeof message + message.text_bytes;
  }
  received.erase(received.begin(), received.begin() + static_cast<std::ptrdiff_t>(begin));
  return more;
}

}  // namespace troupe::transport
