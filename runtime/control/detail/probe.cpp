#include "runtime/control/detail/probe.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "runtime/numeric_address.h"

namespace troupe::control {
namespace {

using std::chrono::milliseconds;

/// After each attempt that found the port open.
constexpr std::array pauses{milliseconds(2),  milliseconds(5),   milliseconds(20),
                            milliseconds(50), milliseconds(200), milliseconds(700)};
constexpr milliseconds attempt_time{1000};

Fd begin_connect(const std::string& host, int port, int& error) {
  error = EHOSTUNREACH;
  const Addresses target = numeric_address(host, std::to_string(port));
  if (!target) return {};
  Fd socket(::socket(target->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return {};
  error = connect(socket.get(), target->ai_addr, target->ai_addrlen) == 0 ? 0 : errno;
  return socket;
}

/// EINPROGRESS while it connects, else the result.
int connect_result(const Fd& socket) {
  pollfd item{socket.get(), POLLOUT, 0};
  if (poll(&item, 1, 0) <= 0) return EINPROGRESS;
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

}  // namespace

Probe::Probe(std::string address, int port) : address_(std::move(address)), port_(port) {}

Probe::Finding Probe::look(Clock::time_point now) {
  int result = EINPROGRESS;
  if (!socket_) {
    if (now < next_) return Finding::pending;
    socket_ = begin_connect(address_, port_, result);
    next_ = now + attempt_time;
  }
  if (socket_ && result == EINPROGRESS) result = connect_result(socket_);
  if (result == EINPROGRESS && now < next_) return Finding::pending;
  socket_.reset();
  if (result == ECONNREFUSED) return Finding::ended;
  if (attempts_ == static_cast<int>(pauses.size())) return Finding::unclear;
  next_ = now + pauses[static_cast<std::size_t>(attempts_++)];
  return Finding::pending;
}

}  // namespace troupe::control
