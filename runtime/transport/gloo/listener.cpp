// The threads that hear what peers say and collect what they send.

#include <fmt/format.h>

#include <cstring>

#include "runtime/transport/described.h"
#include "runtime/transport/gloo/communicator.h"

namespace troupe::transport {
namespace {

/// The tensor of an offer, if it is small enough to be in it; else an undefined one.
Tensor held_in(Words::Text text, const TensorMeta& meta) {
  if (meta.bytes() > Words::longest_text) return {};
  if (meta.bytes() != text.size()) throw std::runtime_error("it offers a torn tensor");
  Tensor tensor = Tensor::empty(meta.shape, meta.dtype, meta.layout);
  if (!text.empty()) std::memcpy(tensor.raw(), text.data(), text.size());
  return tensor;
}

}  // namespace

Error GlooCommunicator::failed(int peer, const std::exception& error) const {
  if (const auto known = ended()) return *known;
  return Error(ErrorCode::peer_lost,
               fmt::format("{}: rank {} is gone: {}", where(), peer, error.what()),
               "see that rank's log");
}

void GlooCommunicator::lose(int rank, const std::exception& error) {
  if (!interrupted_) fail(failed(rank, error));
}

bool GlooCommunicator::hear(int rank, const Word& word, Words::Text text) {
  GlooArrival arrival;
  arrival.id = word.id;
  switch (word.kind) {
    case Word::Kind::offer:
      arrival.meta = described(word);
      arrival.small = held_in(text, arrival.meta);
      inbox_.arrive({rank, InboxKey::Kind::tensor, word.tag}, std::move(arrival));
      return true;
    case Word::Kind::call:
      arrival.call = {static_cast<CollectiveCall::Kind>(word.call), word.number, described(word)};
      inbox_.arrive({rank, InboxKey::Kind::collective, word.tag}, std::move(arrival));
      return true;
    case Word::Kind::done:
      end_send(at(rank), word.id);
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

void GlooCommunicator::end_send(Peer& peer, std::uint64_t id) {
  Sending sending;
  {
    const std::lock_guard lock(peer.mutex);
    const auto found = peer.sending.find(id);
    if (found == peer.sending.end()) throw std::runtime_error("it has had what was not sent");
    sending = std::move(found->second);
    peer.sending.erase(found);
  }
  mesh_->await_send(*sending.buffer);  // it was received, so this is a matter of moments
  sending.tensor = {};
  sending.work->finish(success());
}

void GlooCommunicator::collect(int rank) {
  Peer& peer = at(rank);
  std::unique_lock lock(peer.mutex);
  for (;;) {
    peer.met.wait(lock, [&] { return interrupted_ || !peer.receiving.empty(); });
    if (interrupted_) return;
    gloo::transport::UnboundBuffer* buffer = peer.receiving.front().buffer.get();
    lock.unlock();
    try {
      if (!buffer) throw std::runtime_error("its connection has ended");
      mesh_->await_receive(*buffer);
    } catch (const std::exception& error) {
      lock.lock();
      const auto left = peer.left;
      std::vector<ReceivePtr> receives;
      for (const Receiving& receiving : peer.receiving) receives.push_back(receiving.receive);
      lock.unlock();
      if (!left) return lose(rank, error);
      for (const ReceivePtr& receive : receives) receive->finish(*left);
      return;
    }
    lock.lock();
    Receiving came = std::move(peer.receiving.front());
    peer.receiving.pop_front();
    ++peer.owed;
    lock.unlock();
    deliver(rank, std::move(came));
    lock.lock();
  }
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
  }
  for (const WorkPtr& work : works) work->finish(error);
  inbox_.leave(rank, error);
}

}  // namespace troupe::transport
