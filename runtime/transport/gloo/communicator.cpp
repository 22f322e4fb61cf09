#include "runtime/transport/gloo/communicator.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <system_error>

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
    owner_.fail(owner_.misfit(from_, tag_, offer.meta, meta_));
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

/// So long all goodbyes together wait for peers that do not read.
constexpr std::chrono::seconds for_goodbyes{1};

Word word_of(Word::Kind kind) {
  Word word;
  word.kind = kind;
  return word;
}

Word offer_of(std::uint64_t tag, const TensorMeta& meta) {
  Word offer = word_of(Word::Kind::offer);
  offer.tag = tag;
  describe(meta, offer);
  return offer;
}

Words::Text bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text)).first(std::min(text.size(), Words::longest_text));
}

}  // namespace

std::uint64_t match_number(std::uint64_t tag, const TensorMeta& meta) {
  std::array<std::int64_t, Shape::max_rank + 4> words{};
  words[0] = static_cast<std::int64_t>(tag);
  words[1] = static_cast<std::int64_t>(meta.dtype);
  words[2] = static_cast<std::int64_t>(meta.layout);
  words[3] = meta.shape.rank();
  std::copy(meta.shape.dims().begin(), meta.shape.dims().end(), words.begin() + 4);
  return (std::uint64_t{1} << 62) | (XXH3_64bits(words.data(), sizeof words) >> 2);
}

GlooCommunicator::GlooCommunicator(int rank, int size, std::unique_ptr<Mesh> mesh,
                                   std::unique_ptr<Words> words)
    : Endpoint(rank, size), mesh_(std::move(mesh)), words_(std::move(words)) {
  for (int peer = 0; peer < size; ++peer)
    peers_.push_back(peer == rank ? nullptr : std::make_unique<Peer>());
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
    if (peer != rank()) at(peer).collector = std::thread([this, peer] { collect(peer); });
  words_->listen(
      {.hear = [this](int from, const Word& word, auto text) { return hear(from, word, text); },
       .lost = [this](int from, const std::exception& why) { lose(from, why); }});
}

GlooCommunicator::~GlooCommunicator() {
  std::vector<int> here;
  for (int peer = 0; peer < size() && !ended(); ++peer) {
    if (peer == rank()) continue;
    pay(at(peer));
    words_->say(peer, word_of(Word::Kind::goodbye));
    const std::lock_guard lock(at(peer).mutex);
    if (!at(peer).left) here.push_back(peer);
  }
  const auto until = std::chrono::steady_clock::now() + for_goodbyes;
  for (const int peer : here) words_->flush(peer, until);
  close();
  join();
}

void GlooCommunicator::join() {
  words_->close();
  for (const auto& peer : peers_)
    if (peer && peer->collector.joinable()) peer->collector.join();
}

/// Waits until what was delivered has been answered for.
void GlooCommunicator::pay(Peer& peer) {
  std::unique_lock lock(peer.mutex);
  peer.paid.wait(lock, [&] { return peer.owed == 0; });
}

void GlooCommunicator::warn(int peer, const Error& error) {
  Word warning = word_of(Word::Kind::warning);
  warning.number = static_cast<std::int32_t>(error.code());
  words_->say(peer, warning, bytes_of(warning_of(error)));
}

void GlooCommunicator::start_send(int to, std::uint64_t tag, const Tensor& tensor,
                                  const WorkPtr& work) {
  const TensorMeta meta = TensorMeta::of(tensor);
  if (fits_an_offer(meta)) return send_whole(to, tag, tensor, work);
  Peer& peer = at(to);
  Word offer = offer_of(tag, meta);
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
  words_->say(to, offer);
  try {
    buffer->send(to, match_number(tag, meta));
  } catch (const std::exception&) {
    // The connection is gone: the listening thread finds that out, and ends the work.
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
      words_->say(to, offer_of(tag, TensorMeta::of(tensor)),
                  Words::Text(tensor.raw(), tensor.bytes()));
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
      receiving.buffer.reset();  // the connection is gone: no bytes will come
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
      peer.met.notify_all();
      return;
    }
  }
  bury(std::move(receiving));
  if (error) receive->finish(*error);
}

void GlooCommunicator::bury(Receiving receiving) {
  if (!receiving.buffer) return;
  receiving.receive.reset();  // its own holder ends it
  const std::lock_guard lock(grave_mutex_);
  grave_.push_back(std::move(receiving));
}

void GlooCommunicator::interrupt(const Error& error) {
  interrupted_ = true;
  words_->cut();
  mesh_->cut();
  for (const auto& peer : peers_) {
    if (!peer) continue;
    const std::lock_guard lock(peer->mutex);
    peer->met.notify_all();
  }
  inbox_.close(error);
}

}  // namespace troupe::transport

namespace troupe {

Result<std::unique_ptr<Communicator>> make_gloo_communicator(Store& store, int rank, int size,
                                                             const GlooOptions& options) {
  try {
    const auto start = std::chrono::steady_clock::now();
    auto mesh = std::make_unique<transport::Mesh>(store, rank, size, options);
    const auto gone =
        std::chrono::floor<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
    GlooOptions rest = options;  // one timeout for all
    rest.timeout = std::max(options.timeout - gone, std::chrono::milliseconds(1));
    auto words = std::make_unique<transport::Words>(store, rank, size, rest, mesh->secret());
    return std::unique_ptr<Communicator>(std::make_unique<transport::GlooCommunicator>(
        rank, size, std::move(mesh), std::move(words)));
  } catch (const Error& error) {
    return error;
  } catch (const std::system_error& error) {
    return Error(ErrorCode::io, fmt::format("gloo: rank {} of {}: {}", rank, size, error.what()),
                 "raise the limits of threads (ulimit -u) and of open files (ulimit -n)");
  }
}

}  // namespace troupe
