#include "runtime/transport/meeting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/text.h"

namespace troupe::transport {

using Clock = std::chrono::steady_clock;

std::string random_word() {
  unsigned char bytes[letters_of_a_word / 2];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    throw Error(ErrorCode::io, "the system gives no random numbers");
  return fmt::format("{:02x}", fmt::join(bytes, bytes + sizeof bytes, ""));
}

Meeting::Meeting(Group group)
    : group_(std::move(group)), deadline_(Clock::now() + group_.timeout) {}

Status Meeting::run() {
  Fd listener;
  Result<std::string> address = listen(listener);
  if (!address) return address.error();
  if (Status put = group_.store.put(key(group_.rank), address.value()); !put) return put;
  if (Status called = call_lower_ranks(); !called) return called;
  return await_higher_ranks(listener);
}

std::string Meeting::key(int rank) const { return fmt::format("{}/{}", group_.prefix, rank); }

std::chrono::milliseconds Meeting::left() const {
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now());
  return std::max(rest, std::chrono::milliseconds(0));
}

bool Meeting::await(const Fd& socket, short event) const {
  pollfd wait{socket.get(), event, 0};
  int count = 0;
  do count = ::poll(&wait, 1, static_cast<int>(left().count()));
  while (count < 0 && errno == EINTR);
  return count > 0;
}

Error Meeting::missing(int peer, const std::string& detail) const {
  return Error(ErrorCode::timed_out,
               fmt::format("{}: rank {} of {} has not met rank {} within {}: {}", group_.transport,
                           peer, group_.size, group_.rank, in_words(group_.timeout), detail),
               "see that rank's log; parallel.timeout is the time to wait "
               "(in a program: TransportOptions::timeout)");
}

Error Meeting::no_socket(const char* what) const {
  return Error(ErrorCode::io,
               fmt::format("{}: {}: {}", group_.transport, what, std::strerror(errno)),
               group_.remedy);
}

Status Meeting::call_lower_ranks() {
  for (int peer = 0; peer < group_.rank; ++peer) {
    const Result<std::string> address = group_.store.get(key(peer), left());
    if (!address && address.error().code() == ErrorCode::timed_out)
      return missing(peer, address.error().message());
    if (!address) return address.error();
    if (Status called = call(peer, address.value()); !called) return called;
  }
  return success();
}

int Meeting::still_missing() const {
  for (int peer = group_.rank + 1; peer < group_.size; ++peer)
    if (!has_met(peer)) return peer;
  return -1;
}

/// Who says nothing is let go when others want the room, longest first.
Status Meeting::await_higher_ranks(const Fd& listener) {
  const std::size_t most_callers = static_cast<std::size_t>(group_.size) + 64;
  std::vector<Fd> callers;
  while (still_missing() >= 0) {
    if (left().count() == 0) return missing(still_missing(), "no call");
    std::vector<pollfd> waits{{listener.get(), POLLIN, 0}};
    for (const Fd& caller : callers) waits.push_back({caller.get(), POLLIN, 0});
    const int count = ::poll(waits.data(), waits.size(), static_cast<int>(left().count()));
    if (count == 0) continue;
    if (count < 0 && errno != EINTR) return no_socket("waiting on a socket");
    for (std::size_t i = callers.size(); i-- > 0;) {
      if (waits[i + 1].revents == 0) continue;
      Fd caller = std::move(callers[i]);
      callers.erase(callers.begin() + static_cast<std::ptrdiff_t>(i));
      greet(std::move(caller));
    }
    if (waits[0].revents == 0) continue;
    Fd caller(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!caller && (errno == EMFILE || errno == ENFILE) && callers.empty())
      return no_socket("taking a call on a socket");
    if ((!caller || callers.size() == most_callers) && !callers.empty())
      callers.erase(callers.begin());
    if (caller) callers.push_back(std::move(caller));
  }
  return success();
}

}  // namespace troupe::transport
