// The threads that hear what peers say and collect what they send.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/transport/described.h"
#include "runtime/transport/gloo/communicator.h"

namespace troupe::transport {
namespace {

std::string text_of(const ControlMessage& message) {
  const auto end = std::find(message.text.begin(), message.text.end(), '\0');
  return {message.text.begin(), end};
}

/// The tensor of an offer, if it is small enough to be in it; else an undefined one.
Tensor held_in(const ControlMessage& offer, const TensorMeta& meta) {
  if (meta.bytes() > offer.text.size()) return {};
  Tensor tensor = Tensor::empty(meta.shape, meta.dtype, meta.layout);
  if (tensor.bytes() != 0) std::memcpy(tensor.raw(), offer.text.data(), tensor.bytes());
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
  if (!interrupted_) fail(-1, failed(rank, error));
}

/// Once the connection is gone nothing more can be awaited, but what came before is worth hearing:
/// it may be a reason, or a goodbye.
void GlooCommunicator::await_message(int rank, std::size_t turn) {
  Heard& heard = at(rank).messages[turn];
  try {
    heard.buffer->recv(rank, control_slot);
  } catch (const std::exception& error) {
    heard.gone = error.what();
  }
}

void GlooCommunicator::listen(int rank) {
  Peer& peer = at(rank);
  try {
    for (std::size_t turn = 0; turn < peer.messages.size(); ++turn) {
      Heard& heard = peer.messages[turn];
      heard.buffer = mesh_->buffer(&heard.content, sizeof heard.content);
      await_message(rank, turn);
    }
    for (;;) {
      const std::size_t turn = peer.heard % peer.messages.size();
      Heard& heard = peer.messages[turn];
      if (!heard.gone.empty()) throw std::runtime_error(heard.gone);
      mesh_->await_receive(*heard.buffer);
      const ControlMessage message = heard.content;
      const bool first = peer.heard++ == 0;
      const bool hello = message.kind == ControlMessage::Kind::hello;
      if (first != hello || (hello && text_of(message) != mesh_->token()))
        throw std::runtime_error("a stranger took its place");
      if (!hear(rank, message)) return;
      await_message(rank, turn);  // last, as it takes a system call
    }
  } catch (const Error& error) {
    fail(rank, error);
  } catch (const std::exception& error) {
    lose(rank, error);
  }
}

bool GlooCommunicator::hear(int rank, const ControlMessage& message) {
  Peer& peer = at(rank);
  forget_seen(peer, message.seen);
  GlooArrival arrival;
  arrival.id = message.id;
  switch (message.kind) {
    case ControlMessage::Kind::hello:
      return true;
    case ControlMessage::Kind::offer:
      arrival.meta = described(message);
      arrival.small = held_in(message, arrival.meta);
      inbox_.arrive({rank, InboxKey::Kind::tensor, message.tag}, std::move(arrival));
      return true;
    case ControlMessage::Kind::call:
      arrival.call = {static_cast<CollectiveCall::Kind>(message.call), message.number,
                      described(message)};
      inbox_.arrive({rank, InboxKey::Kind::collective, message.tag}, std::move(arrival));
      return true;
    case ControlMessage::Kind::done:
      end_send(peer, message.id);
      return true;
    case ControlMessage::Kind::warning: {
      const std::string text = text_of(message);
      const std::size_t line = std::min(text.find('\n'), text.size());
      abort(Error(static_cast<ErrorCode>(message.number), text.substr(0, line),
                  line < text.size() ? text.substr(line + 1) : ""));
      return false;
    }
    case ControlMessage::Kind::goodbye:
      leave(rank);
      return false;
  }
  throw std::runtime_error("it says what no rank says");
}

void GlooCommunicator::forget_seen(Peer& peer, std::uint64_t seen) {
  const std::lock_guard lock(peer.mutex);
  for (; peer.said_and_seen < seen && !peer.said.empty(); ++peer.said_and_seen) {
    mesh_->await_send(*peer.said.front().buffer);  // it was heard, so this is a matter of moments
    peer.said.pop_front();
  }
}

void GlooCommunicator::end_send(Peer& peer, std::uint64_t id) {
  Sending sending;
  {
    const std::lock_guard lock(peer.mutex);
    const auto found = peer.sending.find(id);
    if (found == peer.sending.end()) throw std::runtime_error("it has had what was not sent");
    sending = std::move(found->second);
    peer.sending.erase(found);
    if (sending.buffer) mesh_->await_send(*sending.buffer);  // as above
  }
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
  ControlMessage done;
  done.kind = ControlMessage::Kind::done;
  done.id = came.id;
  struct Payment {  // also where a callback of the receive throws
    GlooCommunicator& owner;
    const int rank;
    const ControlMessage& done;
    ~Payment() {
      Peer& peer = owner.at(rank);
      const std::lock_guard lock(peer.mutex);
      owner.say(peer, rank, done);
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
