// Collectives on Gloo: pieces go straight between tensors, under slots that the calls have agreed.

#include <algorithm>

#include "runtime/transport/gloo/communicator.h"

namespace troupe::transport {
namespace {

class GlooExchange final : public Exchange {
 public:
  GlooExchange(GlooCommunicator& owner, std::uint64_t tag, std::uint64_t stream,
               const CollectiveCall& call)
      : owner_(owner),
        own_(stream),
        calls_(owner, owner.inbox(), tag, call),
        peers_(static_cast<std::size_t>(owner.size())) {
    for (int peer = 0; peer < owner.size(); ++peer)
      if (peer != owner.rank()) owner.tell_call(peer, tag, stream, call);
  }

  void meet() override {
    const std::vector<GlooArrival> calls = calls_.meet();
    for (std::size_t peer = 0; peer < calls.size(); ++peer) peers_[peer].stream = calls[peer].id;
  }

  /// Each piece is a message of its own in both directions, and a wake-up of Gloo's thread, which
  /// the more ranks there are the more of a sum's time takes; with two ranks, caches count for
  /// more. Measured: 1 MiB for two, 2 MiB for four (docs/performance.md).
  Pace pace() const override {
    constexpr std::size_t each = std::size_t{512} << 10, most = std::size_t{2} << 20;
    return {std::min(each * static_cast<std::size_t>(owner_.size()), most), 2};
  }

  void send(int to, Stream stream, const std::byte* data, std::size_t bytes) override {
    guard(to, [&] {
      sent_.push_back({to, owner_.mesh().buffer_to(to, const_cast<std::byte*>(data), bytes)});
      sent_.back().buffer->send(to, piece_slot(own_ + stream));
    });
  }

  void send_to_all(Stream stream, const std::byte* data, std::size_t bytes) override {
    for (int step = 1; step < owner_.size(); ++step)
      send((owner_.rank() + step) % owner_.size(), stream, data, bytes);
  }

  void expect(int from, Stream stream, std::byte* into, std::size_t bytes) override {
    guard(from, [&] {
      Expected expected;
      if (!into) {
        expected.scratch = scratch(bytes);
        into = expected.scratch.raw();
      }
      expected.data = into;
      expected.buffer = owner_.mesh().buffer_from(from, into, bytes);
      auto& queue = at(from).expected[stream];
      queue.push_back(std::move(expected));
      queue.back().buffer->recv(from, piece_slot(at(from).stream + stream));
    });
  }

  const std::byte* take(int from, Stream stream) override {
    Peer& peer = at(from);
    guard(from, [&] { owner_.mesh().await_receive(from, *peer.expected[stream].front().buffer); });
    Expected expected = std::move(peer.expected[stream].front());
    peer.expected[stream].pop_front();
    peer.taken[stream].push_back(std::move(expected.scratch));
    return expected.data;
  }

  void give_back(int from, Stream stream) override {
    auto& taken = at(from).taken[stream];
    if (taken.front().defined()) spare_.push_back(std::move(taken.front()));
    taken.pop_front();
  }

  void finish() override {
    for (; !sent_.empty(); sent_.pop_front())
      guard(sent_.front().to,
            [&] { owner_.mesh().await_send(sent_.front().to, *sent_.front().buffer); });
  }

 private:
  struct Expected {
    Tensor scratch;  ///< where it comes to, unless the caller said where
    GlooBuffer buffer;
    const std::byte* data = nullptr;
  };
  struct Sent {
    int to = 0;
    GlooBuffer buffer;
  };
  struct Peer {
    std::uint64_t stream = 0;
    std::array<std::deque<Expected>, 2> expected;
    std::array<std::deque<Tensor>, 2> taken;
  };
  Peer& at(int peer) { return peers_[static_cast<std::size_t>(peer)]; }

  template <class Call>
  void guard(int peer, Call call) {
    try {
      call();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw owner_.failed(peer, error);
    }
  }

  Tensor scratch(std::size_t bytes) {
    for (std::size_t i = 0; i < spare_.size(); ++i) {
      if (spare_[i].bytes() < bytes) continue;
      std::swap(spare_[i], spare_.back());
      Tensor found = std::move(spare_.back());
      spare_.pop_back();
      return found;
    }
    return Tensor::empty({static_cast<std::int64_t>(bytes)}, DType::u8);
  }

  GlooCommunicator& owner_;
  const std::uint64_t own_;
  CallsOfRanks<GlooArrival> calls_;
  std::vector<Peer> peers_;
  std::deque<Sent> sent_;
  std::vector<Tensor> spare_;
};

}  // namespace

std::unique_ptr<Exchange> make_gloo_exchange(GlooCommunicator& owner, std::uint64_t tag,
                                             std::uint64_t stream, const CollectiveCall& call) {
  return std::make_unique<GlooExchange>(owner, tag, stream, call);
}

}  // namespace troupe::transport
