#pragma once
// Inside the transports: the receiving half of an Exchange whose pieces come through an Inbox.

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/transport/waiters.h"

namespace troupe::transport {

/// An Arrival has a `call` and the `stream` of its pieces, or is a piece of `bytes` at `data`,
/// which stay while it lives.
template <class Arrival>
class InboxExchange : public Exchange {
 public:
  void meet() final {
    const std::vector<Arrival> calls = calls_.meet();
    for (std::size_t peer = 0; peer < calls.size(); ++peer)
      peers_[peer].stream = calls[peer].stream;
  }

  void expect(int from, Stream stream, std::byte* into, std::size_t bytes) final {
    auto awaited = std::make_shared<Awaited<Arrival>>();
    inbox_.expect({from, InboxKey::Kind::piece, at(from).stream + stream}, awaited);
    at(from).expected[stream].push_back({std::move(awaited), into, bytes});
  }

  const std::byte* take(int from, Stream stream) final {
    Peer& peer = at(from);
    const Expected expected = std::move(peer.expected[stream].front());
    peer.expected[stream].pop_front();
    Arrival piece = expected.awaited->get();
    if (piece.bytes != expected.bytes)
      throw Error(ErrorCode::peer_lost,
                  fmt::format("{}: a piece of {} has {} bytes, not {}", endpoint_.name(),
                              to_string(call_), piece.bytes, expected.bytes));
    const std::byte* data = piece.data;
    if (expected.into) {
      std::memcpy(expected.into, data, expected.bytes);
      data = expected.into;
    }
    peer.taken[stream].push_back(std::move(piece));
    return data;
  }

  void give_back(int from, Stream stream) final { at(from).taken[stream].pop_front(); }

 protected:
  InboxExchange(Endpoint& endpoint, Inbox<Arrival>& inbox, std::uint64_t tag,
                const CollectiveCall& call)
      : endpoint_(endpoint),
        inbox_(inbox),
        call_(call),
        calls_(endpoint, inbox, tag, call),
        peers_(static_cast<std::size_t>(endpoint.size())) {}

  Endpoint& endpoint_;

 private:
  struct Expected {
    std::shared_ptr<Awaited<Arrival>> awaited;
    std::byte* into = nullptr;
    std::size_t bytes = 0;
  };
  struct Peer {
    std::uint64_t stream = 0;
    std::array<std::deque<Expected>, 2> expected;
    std::array<std::deque<Arrival>, 2> taken;
  };
  Peer& at(int peer) { return peers_[static_cast<std::size_t>(peer)]; }

  Inbox<Arrival>& inbox_;
  const CollectiveCall call_;
  CallsOfRanks<Arrival> calls_;
  std::vector<Peer> peers_;
};

}  // namespace troupe::transport
