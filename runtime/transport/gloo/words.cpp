#include "runtime/transport/gloo/words.h"

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

#include "runtime/transport/gloo/mesh.h"

namespace troupe::transport {
namespace {

using Clock = std::chrono::steady_clock;

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK; }

Error no_events() {
  return {ErrorCode::io, std::string("gloo: waiting for words: ") + std::strerror(errno),
          more_open_files};
}

/// How much of it the system took; none of it if the connection is gone (errno says).
std::size_t send_now(int socket, Words::Text head, Words::Text text) {
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

Words::Words(Store& store, int rank, int size, const GlooOptions& options,
             const std::string& secret)
    : events_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!events_) throw no_events();
  for (Fd& socket : connect_words(store, rank, size, options, secret)) {
    lines_.push_back(socket ? std::make_unique<Line>() : nullptr);
    if (socket) lines_.back()->socket = std::move(socket);
  }
}

void Words::close() {
  cut();
  if (thread_.joinable()) thread_.join();
}

void Words::listen(Listener listener) {
  listener_ = std::move(listener);
  for (std::size_t rank = 0; rank < lines_.size(); ++rank) {
    if (!lines_[rank]) continue;
    epoll_event event{.events = EPOLLIN, .data = {.u64 = rank}};
    if (::epoll_ctl(events_.get(), EPOLL_CTL_ADD, lines_[rank]->socket.get(), &event) != 0)
      throw no_events();
  }
  thread_ = std::thread([this] { serve(); });
}

void Words::watch(int rank, bool for_room) {
  epoll_event event{.events = for_room ? EPOLLIN | EPOLLOUT : EPOLLIN,
                    .data = {.u64 = static_cast<std::uint64_t>(rank)}};
  ::epoll_ctl(events_.get(), EPOLL_CTL_MOD, at(rank).socket.get(), &event);
}

void Words::say(int to, Word word, Text text) {
  Line& line = at(to);
  word.follow = static_cast<std::uint32_t>(text.size());
  const Text head(reinterpret_cast<const std::byte*>(&word), sizeof word);
  const std::lock_guard lock(line.mutex);
  if (line.gone) return;
  const bool waits = !line.unsent.empty();
  const std::size_t sent = waits ? 0 : send_now(line.socket.get(), head, text);
  if (sent == head.size() + text.size()) return;
  if (!waits && sent == 0 && !would_block()) {
    line.gone = true;  // the listening thread finds that out and says so
    return;
  }
  line.unsent.insert(line.unsent.end(), head.begin(), head.end());
  line.unsent.insert(line.unsent.end(), text.begin(), text.end());
  line.unsent.erase(line.unsent.begin(), line.unsent.begin() + static_cast<std::ptrdiff_t>(sent));
  if (!waits) watch(to, true);
}

void Words::push(Line& line) {
  while (!line.unsent.empty() && !line.gone) {
    const std::size_t sent = send_now(line.socket.get(), line.unsent, {});
    if (sent == 0) {
      line.gone = !would_block();
      return;
    }
    line.unsent.erase(line.unsent.begin(), line.unsent.begin() + static_cast<std::ptrdiff_t>(sent));
  }
}

void Words::flush(int to, Clock::time_point until) {
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
  lock.unlock();  // the listening thread may want it, and the peer may wait for that one to read
  // Ended with bytes under way, a connection drops them where the peer says one word more.
  for (int queued = 0; left() > 0;) {
    pollfd end{line.socket.get(), 0, 0};
    if (::ioctl(line.socket.get(), SIOCOUTQ, &queued) != 0 || queued == 0) return;
    if (::poll(&end, 1, 1) > 0) return;  // it is gone
  }
}

void Words::cut() {
  for (const auto& line : lines_)
    if (line) ::shutdown(line->socket.get(), SHUT_RDWR);
}

void Words::serve() {
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

bool Words::read(int from) {
  Line& line = at(from);
  constexpr std::size_t at_once = std::size_t{16} << 10;
  const std::size_t begun = line.heard.size();
  try {
    line.heard.resize(begun + at_once);
    const ssize_t got = ::recv(line.socket.get(), line.heard.data() + begun, at_once, MSG_DONTWAIT);
    line.heard.resize(begun + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && (would_block() || errno == EINTR)) return true;
    if (got < 0) throw std::runtime_error(std::strerror(errno));
    if (got == 0) throw std::runtime_error("its connection has ended");
    return hear_all(from);
  } catch (const std::exception& error) {
    listener_.lost(from, error);
    return false;
  }
}

bool Words::hear_all(int from) {
  std::vector<std::byte>& heard = at(from).heard;
  std::size_t begin = 0;
  bool more = true;
  while (more && heard.size() - begin >= sizeof(Word)) {
    Word word;
    std::memcpy(&word, heard.data() + begin, sizeof word);
    if (word.follow > longest_text) throw std::runtime_error("it says what no rank says");
    if (heard.size() - begin < sizeof word + word.follow) break;
    more = listener_.hear(from, word, {heard.data() + begin + sizeof word, word.follow});
    begin += sizeof word + word.follow;
  }
  heard.erase(heard.begin(), heard.begin() + static_cast<std::ptrdiff_t>(begin));
  return more;
}

}  // namespace troupe::transport
