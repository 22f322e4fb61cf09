#include "runtime/transport/rendezvous.h"

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

std::string random_token() {
  unsigned char bytes[token_length / 2];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    throw Error(ErrorCode::io, "the system gives no random numbers");
  return fmt::format("{:02x}", fmt::join(bytes, bytes + sizeof bytes, ""));
}

Rendezvous::Rendezvous(const TransportGroup& group, std::string transport,
                       std::string socket_remedy)
    : group_(group),
      transport_(std::move(transport)),
      socket_remedy_(std::move(socket_remedy)),
      deadline_(Clock::now() + group.timeout) {}

Status Rendezvous::run() {
  Fd listener;
  Result<std::string> address = listen(listener);
  if (!address) return address.error();
  if (Status put = group_.store.put(key(group_.rank), address.value()); !put) return put;
  if (Status connected = connect_to_lower_ranks(); !connected) return connected;
  return accept_higher_ranks(listener);
}

std::string Rendezvous::key(int rank) const { return fmt::format("{}/{}", group_.name, rank); }

std::chrono::milliseconds Rendezvous::time_left() const {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now());
  return std::max(left, std::chrono::milliseconds(0));
}

bool Rendezvous::wait_for(const Fd& socket, short event) const {
  pollfd wait{socket.get(), event, 0};
  int count = 0;
  do count = ::poll(&wait, 1, static_cast<int>(time_left().count()));
  while (count < 0 && errno == EINTR);
  return count > 0;
}

Error Rendezvous::missing(int peer, const std::string& detail) const {
  return Error(
      ErrorCode::timed_out,
      fmt::format("{}: rank {} of {} has not connected to rank {} within {}: {}", transport_, peer,
                  group_.size, group_.rank, in_words(group_.timeout), detail),
      "see that rank's log; to wait longer, raise `timeout`");
}

Error Rendezvous::no_socket(const char* what) const {
  return Error(ErrorCode::io, fmt::format("{}: {}: {}", transport_, what, std::strerror(errno)),
               socket_remedy_);
}

Status Rendezvous::connect_to_lower_ranks() {
  for (int peer = 0; peer < group_.rank; ++peer) {
    const Result<std::string> address = group_.store.get(key(peer), time_left());
    if (!address && address.error().code() == ErrorCode::timed_out)
      return missing(peer, address.error().message());
    if (!address) return address.error();
    if (Status connected = connect(peer, address.value()); !connected) return connected;
  }
  return success();
}

int Rendezvous::missing_rank() const {
  for (int peer = group_.rank + 1; peer < group_.size; ++peer)
    if (!is_connected(peer)) return peer;
  return -1;
}

/// Clients that send nothing are closed when others need their place, the oldest first.
Status Rendezvous::accept_higher_ranks(const Fd& listener) {
  const std::size_t most_clients = static_cast<std::size_t>(group_.size) + 64;
  std::vector<Fd> clients;
  while (missing_rank() >= 0) {
    if (time_left().count() == 0) return missing(missing_rank(), "no connection");
    std::vector<pollfd> waits{{listener.get(), POLLIN, 0}};
    for (const Fd& client : clients) waits.push_back({client.get(), POLLIN, 0});
    const int count = ::poll(waits.data(), waits.size(), static_cast<int>(time_left().count()));
    if (count == 0) continue;
    if (count < 0 && errno != EINTR) return no_socket("waiting on a socket");
    for (std::size_t i = clients.size(); i-- > 0;) {
      if (waits[i + 1].revents == 0) continue;
      Fd client = std::move(clients[i]);
      clients.erase(clients.begin() + static_cast<std::ptrdiff_t>(i));
      accept(std::move(client));
    }
    if (waits[0].revents == 0) continue;
    Fd client(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client && (errno == EMFILE || errno == ENFILE) && clients.empty())
      return no_socket("accepting a connection");
    if ((!client || clients.size() == most_clients) && !clients.empty())
      clients.erase(clients.begin());
    if (client) clients.push_back(std::move(client));
  }
  return success();
}

}  // namespace troupe::transport
