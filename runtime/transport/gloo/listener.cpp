// The threads that hear what peers say and collect what they send.

#include <fmt/format.h>

#include <cstring>

#include "runtime/transport/described.h"
#include "runtime/transport/gloo/communicator.h"

namespace troupe::transport {
namespace {

/// The tensor of an offer, if it is small enough to be in it; else an undefined one.
Tensor held_in(Words::Text text, const TensorMeta& meta) {
  if (!fits_an_offer(meta)) return {};
  if (meta.bytes() != text.size()) throw std::runtime_error("it offers a torn tensor");
  Tensor tensor = Tensor::empty(meta.shape, meta.dtype, Device::cpu(), meta.layout);
  if (!text.empty()) std::memcpy(tensor.raw(), text.data(), text.size());
  return tensor;
}

}  // namespace

Error GlooCommunicator::gone(int rank, const std::exception& error) const {
  if (const auto known = ended()) return *known;
  return Error(ErrorCode::peer_lost,
               fmt::format("{}: rank {} is gone: {}", where(), rank, error.what()),
               "see that rank's log");
}

Error GlooCommunicator::failed(int rank, const std::exception& error) {
  constexpr std::chrono::seconds for_a_reason{1};
  Peer& peer = at(rank);
  {
    std::unique_lock lock(peer.mutex);
    peer.met.wait_for(lock, for_a_reason, [&] { return interrupted_ || peer.left; });
    if (peer.left) return *peer.left;
  }
  return gone(rank, error);
}

void GlooCommunicator::lose(int rank, const std::exception& error) {
  if (!interrupted_) fail(gone(rank, error));
}

bool GlooCommunicator::hear(int rank, const Word& word, Words::Text text) {
  GlooArrival arrival;
  arrival.id = word.id;
  switch (word.kind) {
    case Word::Kind::offer:
      arrival.meta = described(word);
      arrival.small = held_in(text, arrival.meta);
      inbox_.arrive({rank, word.tag}, std::move(arrival));
      return true;
    case Word::Kind::done:
      end_send(rank, word.id);
      return true;
    case Word::Kind::warning:
      end_as_told(static_cast<std::uint32_t>(word.number),
                  {reinterpret_cast<const char*>(text.data()), text.size()});
      return false;
    case Word::Kind::goodbye:
      leave(rank);
      return false;
  }
  throw std::runtime_error("it says what no rank says");
}

void GlooCommunicator::end_send(int rank, std::uint64_t id) {
  Peer& peer = at(rank);
  Sending sending;
  {
    const std::lock_guard lock(peer.mutex);
    const auto found = peer.sending.find(id);
    if (found == peer.sending.end()) throw std::runtime_error("it has had what was not sent");
    sending = std::move(found->second);
    peer.sending.erase(found);
  }
  mesh_->await_send(rank, *sending.buffer);  // it was received, so this is a matter of moments
  sending.tensor = {};
  sending.work->finish(success());
}

void GlooCommunicator::collect(int rank) {
  while (std::optional<Receiving> came = collect_one(rank)) deliver(rank, std::move(*came));
  if (!interrupted_) mesh_->forsake(rank);  // it has left
}

/// The next tensor that has come whole; none once its sender has left or the communicator ends.
std::optional<GlooCommunicator::Receiving> GlooCommunicator::collect_one(int rank) {
  Peer& peer = at(rank);
  std::unique_lock lock(peer.mutex);
  peer.met.wait(lock, [&] { return interrupted_ || peer.left || !peer.receiving.empty(); });
  if (interrupted_ || peer.receiving.empty()) return {};
  gloo::transport::UnboundBuffer* buffer = peer.receiving.front().buffer.get();
  lock.unlock();
  try {
    if (!buffer) throw std::runtime_error("its connection has ended");
    mesh_->await_receive(rank, *buffer);
  } catch (const std::exception& error) {
    const Error why = failed(rank, error);
    lock.lock();
    if (!peer.left) {
      lock.unlock();
      if (!interrupted_) fail(why);
      return {};
    }
    std::vector<ReceivePtr> receives;
    for (const Receiving& receiving : peer.receiving) receives.push_back(receiving.receive);
    lock.unlock();
    for (const ReceivePtr& receive : receives) receive->finish(why);
    return {};
  }
  lock.lock();
  Receiving came = std::move(peer.receiving.front());
  peer.receiving.pop_front();
  ++peer.owed;
  return came;
}

/// The receiver first: it waits. Who waited may end this communicator, which waits for `owed`.
void GlooCommunicator::deliver(int rank, Receiving came) {
  Word done;
  done.kind = Word::Kind::done;
  done.id = came.id;
  struct Payment {  // also where a callback of the receive throws
    GlooCommunicator& owner;
    const int rank;
    const Word& done;
    ~Payment() {
      Peer& peer = owner.at(rank);
      const std::lock_guard lock(peer.mutex);
      owner.words_->say(rank, done);
      if (--peer.owed == 0) peer.paid.notify_all();
    }
  } payment{*this, rank, done};
  came.receive->deliver(std::move(came.tensor));
  came = {};
}

void GlooCommunicator::leave(int rank) {
  Peer& peer = at(rank);
  const Error error = left(rank);
  std::vector<WorkPtr> works;
  {
    const std::lock_guard lock(peer.mutex);
    peer.left = error;
    for (const auto& [id, sending] : peer.sending) works.push_back(sending.work);
    // Of none of these has its sender had a receipt, so it has given them up.
    for (const Receiving& receiving : peer.receiving)
      if (receiving.buffer) receiving.buffer->abortWaitRecv();
  }
  peer.met.notify_all();
  for (const WorkPtr& work : works) work->finish(error);
  inbox_.leave(rank, error);
}

}  // namespace troupe::transport
