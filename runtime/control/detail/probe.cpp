#include "runtime/control/detail/probe.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>

namespace troupe::control {
namespace {

using std::chrono::milliseconds;

/// After each attempt that found the port open.
constexpr std::array pauses{milliseconds(2),  milliseconds(5),   milliseconds(20),
                            milliseconds(50), milliseconds(200), milliseconds(700)};
constexpr milliseconds attempt_time{1000};

int begin_connect(const std::string& address, int port, int& error) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  error = EHOSTUNREACH;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return -1;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> target(found, freeaddrinfo);
  const int fd = socket(target->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  error = connect(fd, target->ai_addr, target->ai_addrlen) == 0 ? 0 : errno;
  return fd;
}

/// EINPROGRESS while it goes on, else how connecting ended.
int connect_result(int fd) {
  pollfd item{fd, POLLOUT, 0};
  if (poll(&item, 1, 0) <= 0) return EINPROGRESS;
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

}  // namespace

Probe::Probe(std::string address, int port) : address_(std::move(address)), port_(port) {}

Probe::~Probe() { close_socket(); }

void Probe::close_socket() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

Probe::Finding Probe::look(Clock::time_point now) {
  int result = EINPROGRESS;
  if (fd_ < 0) {
    if (now < next_) return Finding::pending;
    fd_ = begin_connect(address_, port_, result);
    next_ = now + attempt_time;
  }
  if (fd_ >= 0 && result == EINPROGRESS) result = connect_result(fd_);
  if (result == EINPROGRESS && now < next_) return Finding::pending;
  close_socket();
  if (result == ECONNREFUSED) return Finding::ended;
  if (attempts_ == static_cast<int>(pauses.size())) return Finding::unclear;
  next_ = now + pauses[static_cast<std::size_t>(attempts_++)];
  return Finding::pending;
}

}  // namespace troupe::control
