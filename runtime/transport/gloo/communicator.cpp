#include "runtime/transport/gloo/communicator.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "runtime/quiet_thread.h"
#include "runtime/transport/described.h"

namespace troupe::transport {
namespace {

/// A receive that waits for its offer, and then for the bytes of the tensor.
class OfferWaiter final : public Inbox<GlooArrival>::Waiter {
 public:
  OfferWaiter(GlooCommunicator& owner, int from, std::uint64_t tag, const TensorMeta& meta,
              GlooCommunicator::Receiving receiving)
      : owner_(owner), from_(from), tag_(tag), meta_(meta), receiving_(std::move(receiving)) {}

  void arrived(GlooArrival offer) override {
    if (offer.meta.fits(meta_))
      return owner_.accept(from_, std::move(offer), std::move(receiving_));
    owner_.retire(std::move(receiving_));
    owner_.fail(owner_.misfit(from_, tag_, offer.meta, meta_));
  }
  void failed(const Error& error) override {
    const ReceivePtr receive = receiving_.receive;
    owner_.retire(std::move(receiving_));
    receive->finish(error);
  }

 private:
  GlooCommunicator& owner_;
  const int from_;
  const std::uint64_t tag_;
  const TensorMeta meta_;
  GlooCommunicator::Receiving receiving_;
};

/// How long the destructor waits in all for peers that do not read the closing message.
constexpr std::chrono::seconds closing_timeout{1};

ControlMessage message_of(ControlMessage::Kind kind) {
  ControlMessage message;
  message.kind = kind;
  return message;
}

ControlMessage offer_of(std::uint64_t tag, const TensorMeta& meta) {
  ControlMessage offer = message_of(ControlMessage::Kind::offer);
  offer.tag = tag;
  describe(meta, offer);
  return offer;
}

SideChannel::Text bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text)).first(std::min(text.size(), SideChannel::max_text_bytes));
}

}  // namespace

std::uint64_t match_number(std::uint64_t tag, const TensorMeta& meta) {
  std::array<std::int64_t, Shape::max_rank + 4> numbers{};
  numbers[0] = static_cast<std::int64_t>(tag);
  numbers[1] = static_cast<std::int64_t>(meta.dtype);
  numbers[2] = static_cast<std::int64_t>(meta.layout);
  numbers[3] = meta.shape.rank();
  std::copy(meta.shape.dims().begin(), meta.shape.dims().end(), numbers.begin() + 4);
  return (std::uint64_t{1} << 62) | (XXH3_64bits(numbers.data(), sizeof numbers) >> 2);
}

GlooCommunicator::GlooCommunicator(const TransportGroup& group, std::unique_ptr<Mesh> mesh,
                                   std::unique_ptr<SideChannel> side_channel)
    : CommunicatorBase("gloo", group.rank, group.size, group.device),
      mesh_(std::move(mesh)),
      side_channel_(std::move(side_channel)) {
  for (int peer = 0; peer < size(); ++peer)
    peers_.push_back(peer == rank() ? nullptr : std::make_unique<Peer>());
  try {
    start();
  } catch (...) {
    close();
    join();
    throw;
  }
}

void GlooCommunicator::start() {
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank()) at(peer).collector = quiet_thread([this, peer] { collect(peer); });
  side_channel_->listen(
      {.on_message = [this](int from, const ControlMessage& message,
                            auto text) { return on_message(from, message, text); },
       .on_lost = [this](int from, const std::exception& why) { on_lost(from, why); }});
}

GlooCommunicator::~GlooCommunicator() {
  std::vector<int> here;
  for (int peer = 0; peer < size() && !ended(); ++peer) {
    if (peer == rank()) continue;
    wait_for_receipts(at(peer));
    side_channel_->send(peer, message_of(ControlMessage::Kind::closing));
    const std::lock_guard lock(at(peer).mutex);
    if (!at(peer).left) here.push_back(peer);
  }
  const auto until = std::chrono::steady_clock::now() + closing_timeout;
  for (const int peer : here) side_channel_->flush(peer, until);
  close();
  join();
}

void GlooCommunicator::join() {
  side_channel_->close();
  for (const auto& peer : peers_)
    if (peer && peer->collector.joinable()) peer->collector.join();
}

/// Waits until every tensor delivered here is acknowledged to its sender.
void GlooCommunicator::wait_for_receipts(Peer& peer) {
  std::unique_lock lock(peer.mutex);
  peer.acknowledged.wait(lock, [&] { return peer.unacknowledged == 0; });
}

void GlooCommunicator::warn(int peer, const Error& error) {
  ControlMessage warning = message_of(ControlMessage::Kind::warning);
  warning.number = static_cast<std::int32_t>(error.code());
  side_channel_->send(peer, warning, bytes_of(warning_of(error)));
}

void GlooCommunicator::start_send(int to, std::uint64_t tag, const Tensor& tensor,
                                  const WorkPtr& work) {
  const TensorMeta meta = TensorMeta::of(tensor);
  if (fits_an_offer(meta)) return send_whole(to, tag, tensor, work);
  Peer& peer = at(to);
  ControlMessage offer = offer_of(tag, meta);
  const std::shared_ptr buffer = mesh_->buffer_to(to, tensor.raw(), tensor.bytes());
  const std::lock_guard order(peer.offering);
  std::optional<Error> left;
  {
    const std::lock_guard lock(peer.mutex);
    left = peer.left;
    if (!left) {
      offer.id = peer.next_id++;
      peer.sending[offer.id] = {tensor, buffer, work};
    }
  }
  if (left) return static_cast<void>(work->finish(*left));
  side_channel_->send(to, offer);
  try {
    buffer->send(to, match_number(tag, meta));
  } catch (const std::exception&) {
    // The connection has ended: the receiving thread notices that, and ends the work.
  }
}

void GlooCommunicator::send_whole(int to, std::uint64_t tag, const Tensor& tensor,
                                  const WorkPtr& work) {
  Peer& peer = at(to);
  std::optional<Error> left;
  {
    const std::lock_guard order(peer.offering);
    {
      const std::lock_guard lock(peer.mutex);
      left = peer.left;
    }
    if (!left)
      side_channel_->send(to, offer_of(tag, TensorMeta::of(tensor)),
                          SideChannel::Text(tensor.raw(), tensor.bytes()));
  }
  work->finish(left ? Status(*left) : success());
}

void GlooCommunicator::start_receive(int from, std::uint64_t tag, const TensorMeta& meta,
                                     const ReceivePtr& receive) {
  Receiving receiving{0, {}, nullptr, receive};
  const std::lock_guard lock(at(from).posting);
  if (!fits_an_offer(meta)) {
    receiving.tensor = Tensor::empty(meta.shape, meta.dtype, Device::cpu(), meta.layout);
    receiving.buffer = mesh_->buffer_from(from, receiving.tensor.raw(), receiving.tensor.bytes());
    try {
      receiving.buffer->recv(from, match_number(tag, meta));
    } catch (const std::exception&) {
      receiving.buffer.reset();  // the connection has ended: no bytes will come
    }
  }
  inbox_.expect({from, tag},
                std::make_shared<OfferWaiter>(*this, from, tag, meta, std::move(receiving)));
}

void GlooCommunicator::accept(int from, GlooArrival offer, Receiving receiving) {
  receiving.id = offer.id;
  Peer& peer = at(from);
  if (offer.small.defined()) {
    receiving.receive->deliver(std::move(offer.small));
    return;
  }
  std::optional<Error> error;
  const ReceivePtr receive = receiving.receive;
  {
    const std::lock_guard lock(peer.mutex);
    error = peer.left;
    if (!error && !interrupted_) {
      peer.receiving.push_back(std::move(receiving));
      peer.changed.notify_all();
      return;
    }
  }
  retire(std::move(receiving));
  if (error) receive->finish(*error);
}

void GlooCommunicator::retire(Receiving receiving) {
  if (!receiving.buffer) return;
  receiving.receive.reset();  // another handle ends it
  const std::lock_guard lock(retired_mutex_);
  retired_.push_back(std::move(receiving));
}

void GlooCommunicator::interrupt(const Error& error) {
  interrupted_ = true;
  side_channel_->cut();
  mesh_->cut();
  for (const auto& peer : peers_) {
    if (!peer) continue;
    const std::lock_guard lock(peer->mutex);
    peer->changed.notify_all();
  }
  inbox_.close(error);
}

}  // namespace troupe::transport
