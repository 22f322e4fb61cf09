// The threads that receive control messages and the bytes of tensors.

#include <fmt/format.h>

#include <cstring>

#include "runtime/transport/described.h"
#include "runtime/transport/gloo/communicator.h"

namespace troupe::transport {
namespace {

/// The tensor of an offer, if it is small enough to be in it; else an undefined one.
Tensor held_in(SideChannel::Text text, const TensorMeta& meta) {
  if (!fits_an_offer(meta)) return {};
  if (meta.bytes() != text.size())
    throw std::runtime_error("its offer contains a part of a tensor");
  Tensor tensor = Tensor::empty(meta.shape, meta.dtype, Device::cpu(), meta.layout);
  if (!text.empty()) std::memcpy(tensor.raw(), text.data(), text.size());
  return tensor;
}

}  // namespace

Error GlooCommunicator::gone(int rank, const std::exception& error) const {
  if (const auto known = ended()) return *known;
  return Error(ErrorCode::peer_lost,
               fmt::format("{}: rank {} is lost: {}", where(), rank, error.what()),
               "see that rank's log");
}

Error GlooCommunicator::failed(int rank, const std::exception& error) {
  constexpr std::chrono::seconds for_a_reason{1};
  Peer& peer = at(rank);
  {
    std::unique_lock lock(peer.mutex);
    peer.changed.wait_for(lock, for_a_reason, [&] { return interrupted_ || peer.left; });
    if (peer.left) return *peer.left;
  }
  return gone(rank, error);
}

void GlooCommunicator::on_lost(int rank, const std::exception& error) {
  if (!interrupted_) fail(gone(rank, error));
}

bool GlooCommunicator::on_message(int rank, const ControlMessage& message, SideChannel::Text text) {
  GlooArrival arrival;
  arrival.id = message.id;
  switch (message.kind) {
    case ControlMessage::Kind::offer:
      arrival.meta = described(message);
      arrival.small = held_in(text, arrival.meta);
      inbox_.arrive({rank, message.tag}, std::move(arrival));
      return true;
    case ControlMessage::Kind::done:
      end_send(rank, message.id);
      return true;
    case ControlMessage::Kind::warning:
      end_as_reported(static_cast<std::uint32_t>(message.number),
                      {reinterpret_cast<const char*>(text.data()), text.size()});
      return false;
    case ControlMessage::Kind::closing:
      leave(rank);
      return false;
  }
  throw std::runtime_error("it sent an invalid control message");
}

void GlooCommunicator::end_send(int rank, std::uint64_t id) {
  Peer& peer = at(rank);
  Sending sending;
  {
    const std::lock_guard lock(peer.mutex);
    const auto found = peer.sending.find(id);
    if (found == peer.sending.end())
      throw std::runtime_error("it acknowledges a tensor that was not sent");
    sending = std::move(found->second);
    peer.sending.erase(found);
  }
  mesh_->await_send(*sending.buffer);  // the peer has received it: this is short
  sending.tensor = {};
  sending.work->finish(success());
}

void GlooCommunicator::collect(int rank) {
  while (std::optional<Receiving> came = collect_one(rank)) deliver(rank, std::move(*came));
}

/// The next complete tensor; none once its sender has left or the communicator ends.
std::optional<GlooCommunicator::Receiving> GlooCommunicator::collect_one(int rank) {
  Peer& peer = at(rank);
  std::unique_lock lock(peer.mutex);
  peer.changed.wait(lock, [&] { return interrupted_ || peer.left || !peer.receiving.empty(); });
  if (interrupted_ || peer.receiving.empty()) return {};
  gloo::transport::UnboundBuffer* buffer = peer.receiving.front().buffer.get();
  lock.unlock();
  try {
    if (!buffer) throw std::runtime_error("its connection has ended");
    mesh_->await_receive(*buffer);
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
  ++peer.unacknowledged;
  return came;
}

/// Ends the receive before it acknowledges the tensor, since a thread may wait for the receive.
/// That thread may destroy this communicator, whose destructor waits for `unacknowledged`.
void GlooCommunicator::deliver(int rank, Receiving came) {
  ControlMessage done;
  done.kind = ControlMessage::Kind::done;
  done.id = came.id;
  struct Acknowledgement {  // in a destructor: a callback of the receive may throw
    GlooCommunicator& owner;
    const int rank;
    const ControlMessage& done;
    ~Acknowledgement() {
      Peer& peer = owner.at(rank);
      const std::lock_guard lock(peer.mutex);
      owner.side_channel_->send(rank, done);
      if (--peer.unacknowledged == 0) peer.acknowledged.notify_all();
    }
  } acknowledgement{*this, rank, done};
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
    // The sender has no acknowledgement of any of these, so it has given them up.
    for (const Receiving& receiving : peer.receiving)
      if (receiving.buffer) receiving.buffer->abortWaitRecv();
  }
  peer.changed.notify_all();
  for (const WorkPtr& work : works) work->finish(error);
  inbox_.leave(rank, error);
}

}  // namespace troupe::transport
