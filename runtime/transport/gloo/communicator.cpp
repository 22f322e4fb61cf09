#include "runtime/transport/gloo/communicator.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "runtime/transport/described.h"

namespace troupe::transport {
namespace {

/// Starts the way of a tensor's bytes once its offer and its receive have met.
class OfferWaiter final : public Inbox<GlooArrival>::Waiter {
 public:
  OfferWaiter(GlooCommunicator& owner, int from, std::uint64_t tag, const TensorMeta& meta,
              GlooCommunicator::Receiving receiving)
      : owner_(owner), from_(from), tag_(tag), meta_(meta), receiving_(std::move(receiving)) {}

  void arrived(GlooArrival offer) override {
    if (offer.meta.fits(meta_))
      return owner_.accept(from_, std::move(offer), std::move(receiving_));
    owner_.bury(std::move(receiving_));
    owner_.fail(from_, owner_.misfit(from_, tag_, offer.meta, meta_));
  }
  void failed(const Error& error) override {
    const ReceivePtr receive = receiving_.receive;
    owner_.bury(std::move(receiving_));
    receive->finish(error);
  }

 private:
  GlooCommunicator& owner_;
  const int from_;
  const std::uint64_t tag_;
  const TensorMeta meta_;
  GlooCommunicator::Receiving receiving_;
};

/// A last word may wait so long for the system to take it, if the peer does not read.
constexpr std::chrono::milliseconds for_a_warning{100}, for_a_goodbye{1000};

void put_text(ControlMessage& message, std::string_view text) {
  std::copy_n(text.begin(), std::min(text.size(), message.text.size() - 1), message.text.begin());
}

bool fits_an_offer(const TensorMeta& meta) { return meta.bytes() <= ControlMessage{}.text.size(); }

ControlMessage message_of(ControlMessage::Kind kind) {
  ControlMessage message;
  message.kind = kind;
  return message;
}

}  // namespace

std::uint64_t tensor_slot(std::uint64_t tag, const TensorMeta& meta) {
  std::array<std::int64_t, Shape::max_rank + 4> words{};
  words[0] = static_cast<std::int64_t>(tag);
  words[1] = static_cast<std::int64_t>(meta.dtype);
  words[2] = static_cast<std::int64_t>(meta.layout);
  words[3] = meta.shape.rank();
  std::copy(meta.shape.dims().begin(), meta.shape.dims().end(), words.begin() + 4);
  return (std::uint64_t{1} << 62) | (XXH3_64bits(words.data(), sizeof words) >> 2);
}

GlooCommunicator::GlooCommunicator(int rank, int size, std::unique_ptr<Mesh> mesh)
    : Endpoint(rank, size), mesh_(std::move(mesh)) {
  for (int peer = 0; peer < size; ++peer)
    peers_.push_back(peer == rank ? nullptr : std::make_unique<Peer>());
  ControlMessage hello = message_of(ControlMessage::Kind::hello);
  put_text(hello, mesh_->token());
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    tell(peer, hello);
    at(peer).listener = std::thread([this, peer] { listen(peer); });
    at(peer).collector = std::thread([this, peer] { collect(peer); });
  }
}

GlooCommunicator::~GlooCommunicator() {
  if (!ended())
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      pay(at(peer));
      say_last(peer, message_of(ControlMessage::Kind::goodbye), for_a_goodbye);
    }
  close();
  for (const auto& peer : peers_) {
    if (!peer) continue;
    peer->listener.join();
    peer->collector.join();
  }
}

void GlooCommunicator::say(Peer& peer, int rank, const ControlMessage& message) {
  if (interrupted_ || peer.left) return;
  Message said;
  said.content = std::make_unique<ControlMessage>(message);
  said.content->seen = peer.heard;
  said.buffer = mesh_->buffer(said.content.get(), sizeof(ControlMessage));
  peer.said.push_back(std::move(said));
  try {
    peer.said.back().buffer->send(rank, control_slot);
  } catch (const std::exception&) {
    // The connection is gone: the peer's listener finds that out and says so.
  }
}

/// Waits until what was delivered has been answered for.
void GlooCommunicator::pay(Peer& peer) {
  std::unique_lock lock(peer.mutex);
  peer.paid.wait(lock, [&] { return peer.owed == 0; });
}

void GlooCommunicator::tell(int rank, const ControlMessage& message) {
  Peer& peer = at(rank);
  const std::lock_guard lock(peer.mutex);
  say(peer, rank, message);
}

void GlooCommunicator::say_last(int rank, const ControlMessage& message,
                                std::chrono::milliseconds patience) {
  Peer& peer = at(rank);
  const std::lock_guard lock(peer.mutex);
  if (interrupted_ || peer.left) return;
  say(peer, rank, message);
  try {
    peer.said.back().buffer->waitSend(patience);  // its end would poison the context: no matter now
  } catch (const std::exception&) {
  }
}

void GlooCommunicator::warn(int peer, const Error& error) {
  ControlMessage message = message_of(ControlMessage::Kind::warning);
  message.number = static_cast<std::int32_t>(error.code());
  put_text(message, error.message() + '\n' + error.remedy());
  say_last(peer, message, for_a_warning);
}

void GlooCommunicator::start_send(int to, std::uint64_t tag, const Tensor& tensor,
                                  const WorkPtr& work) {
  Peer& peer = at(to);
  const TensorMeta meta = TensorMeta::of(tensor);
  std::optional<Error> error;
  {
    const std::lock_guard lock(peer.mutex);
    if (interrupted_) return;
    error = peer.left;
    if (!error) {
      ControlMessage offer = message_of(ControlMessage::Kind::offer);
      offer.tag = tag;
      offer.id = peer.next_id++;
      describe(meta, offer);
      Sending& sending = peer.sending[offer.id];
      sending = {nullptr, tensor, work};
      try {
        if (fits_an_offer(meta)) {
          if (tensor.bytes() != 0) std::memcpy(offer.text.data(), tensor.raw(), tensor.bytes());
        } else {
          sending.buffer = mesh_->buffer(tensor.raw(), tensor.bytes());
          sending.buffer->send(to, tensor_slot(tag, meta));
        }
      } catch (const std::exception&) {
        // As above; the work ends with the communicator.
      }
      // After the bytes: answers to the offer would get in the way of their being written.
      say(peer, to, offer);
    }
  }
  if (error) work->finish(*error);
}

void GlooCommunicator::start_receive(int from, std::uint64_t tag, const TensorMeta& meta,
                                     const ReceivePtr& receive) {
  Receiving receiving{0, nullptr, {}, receive};
  const std::lock_guard lock(at(from).posting);
  if (!fits_an_offer(meta)) {
    receiving.tensor = Tensor::empty(meta.shape, meta.dtype, meta.layout);
    receiving.buffer = mesh_->buffer(receiving.tensor.raw(), receiving.tensor.bytes());
    try {
      receiving.buffer->recv(from, tensor_slot(tag, meta));
    } catch (const std::exception&) {
      receiving.buffer.reset();  // the connection is gone: no bytes will come
    }
  }
  inbox_.expect({from, InboxKey::Kind::tensor, tag},
                std::make_shared<OfferWaiter>(*this, from, tag, meta, std::move(receiving)));
}

void GlooCommunicator::accept(int from, GlooArrival offer, Receiving receiving) {
  receiving.id = offer.id;
  Peer& peer = at(from);
  if (offer.small.defined()) {
    receiving.tensor = std::move(offer.small);
    {
      const std::lock_guard lock(peer.mutex);
      ++peer.owed;
    }
    return deliver(from, std::move(receiving));
  }
  std::optional<Error> error;
  const ReceivePtr receive = receiving.receive;
  {
    const std::lock_guard lock(peer.mutex);
    error = peer.left;
    if (!error && !interrupted_) {
      peer.receiving.push_back(std::move(receiving));
      peer.met.notify_one();
      return;
    }
  }
  bury(std::move(receiving));
  if (error) receive->finish(*error);
}

std::unique_ptr<Exchange> GlooCommunicator::open_exchange(std::uint64_t tag,
                                                          const CollectiveCall& call,
                                                          const Tensor& in, const Tensor& out) {
  return make_gloo_exchange(*this, tag, next_stream_.fetch_add(2), call, in, out);
}

void GlooCommunicator::tell_call(int to, std::uint64_t tag, std::uint64_t stream,
                                 const CollectiveCall& call) {
  ControlMessage message = message_of(ControlMessage::Kind::call);
  message.tag = tag;
  message.id = stream;
  message.number = call.root;
  message.call = static_cast<std::uint8_t>(call.kind);
  describe(call.meta, message);
  tell(to, message);
}

void GlooCommunicator::bury(std::vector<GlooBuffer> buffers, std::vector<Tensor> tensors) {
  const std::lock_guard lock(grave_mutex_);
  for (GlooBuffer& buffer : buffers) buried_buffers_.push_back(std::move(buffer));
  for (Tensor& tensor : tensors) buried_tensors_.push_back(std::move(tensor));
}

void GlooCommunicator::bury(Receiving receiving) {
  if (!receiving.buffer) return;
  const std::lock_guard lock(grave_mutex_);
  buried_buffers_.push_back(std::move(receiving.buffer));
  buried_tensors_.push_back(std::move(receiving.tensor));
}

void GlooCommunicator::interrupt(const Error& error) {
  interrupted_ = true;
  mesh_->cut();
  for (const auto& peer : peers_) {
    if (!peer) continue;
    const std::lock_guard lock(peer->mutex);
    peer->met.notify_one();
  }
  inbox_.close(error);
}

}  // namespace troupe::transport

namespace troupe {

Result<std::unique_ptr<Communicator>> make_gloo_communicator(Store& store, int rank, int size,
                                                             const GlooOptions& options) {
  try {
    auto mesh = std::make_unique<transport::Mesh>(store, rank, size, options);
    return std::unique_ptr<Communicator>(
        std::make_unique<transport::GlooCommunicator>(rank, size, std::move(mesh)));
  } catch (const Error& error) {
    return error;
  }
}

}  // namespace troupe
