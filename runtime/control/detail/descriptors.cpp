#include "runtime/control/detail/descriptors.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "runtime/error.h"

namespace troupe::control {
namespace {

[[noreturn]] void fail() {
  throw Error(ErrorCode::io, fmt::format("cannot wait for a connection: {}", std::strerror(errno)),
              "raise the limit of open files: ulimit -n");
}

}  // namespace

Descriptors::Descriptors() : fd_(epoll_create1(EPOLL_CLOEXEC)) {
  if (fd_ < 0) fail();
}

Descriptors::~Descriptors() { close(fd_); }

void Descriptors::add(int fd, int name) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = name;
  if (epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &event) != 0) fail();
}

void Descriptors::remove(int fd) { epoll_ctl(fd_, EPOLL_CTL_DEL, fd, nullptr); }

std::vector<int>& Descriptors::wait(std::chrono::milliseconds time, int to_write) {
  int left = static_cast<int>(time.count());
  if (to_write >= 0) {
    std::array<pollfd, 2> items{{{fd_, POLLIN, 0}, {to_write, POLLOUT, 0}}};
    ::poll(items.data(), items.size(), left);
    left = 0;
  }
  std::array<epoll_event, 64> events{};
  const int count = epoll_wait(fd_, events.data(), static_cast<int>(events.size()), left);
  ready_.clear();
  for (int i = 0; i < count; ++i) ready_.push_back(events[static_cast<std::size_t>(i)].data.fd);
  return ready_;
}

}  // namespace troupe::control
