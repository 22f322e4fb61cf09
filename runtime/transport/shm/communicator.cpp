#include "runtime/transport/shm/communicator.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "runtime/quiet_thread.h"
#include "runtime/transport/receive_waiter.h"

namespace troupe::transport {
namespace {

/// How often the receiving thread looks before it sleeps: a few microseconds, for answers that
/// arrive soon. More would take processor time from the threads that compute them.
constexpr int looks_before_sleep = 50;

}  // namespace

ShmCommunicator::ShmCommunicator(const TransportGroup& group,
                                 std::vector<std::shared_ptr<PeerConnection>> connections, Fd bell)
    : CommunicatorBase("shm", group.rank, group.size, group.device),
      bell_(std::move(bell)),
      deferral_(group.deferral) {
  for (int peer = 0; peer < size(); ++peer) {
    const auto& connection = connections[static_cast<std::size_t>(peer)];
    peers_.push_back(
        connection ? std::unique_ptr<Peer>(new Peer{
                         .connection = connection,
                         .sender = {connection, [this] { wake_engine(); }},
                         .receiver = {connection, fmt::format("{}: the shared memory of rank {}",
                                                              where(), peer)}})
                   : nullptr);
  }
  engine_ = quiet_thread([this] { serve(); });
  if (deferral_) deferral_->attach(*this);
}

ShmCommunicator::~ShmCommunicator() {
  if (deferral_) deferral_->detach(*this);
  close();
  stopping_ = true;
  wake_engine();
  engine_.join();
  for (const auto& peer : peers_) {
    if (!peer) continue;
    Signal closing;
    closing.kind = Signal::Kind::closing;
    send_signal(peer->connection->socket(), closing);
    ::shutdown(peer->connection->socket(), SHUT_RDWR);
    // If a socket is closed with unread messages in it, its peer sees a broken connection before
    // it sees the closing message.
    for (auto left = ReceiveOutcome::received;
         left != ReceiveOutcome::none && left != ReceiveOutcome::gone;) {
      Signal unread;
      left = receive_signal(peer->connection->socket(), unread);
    }
  }
}

void ShmCommunicator::wake_engine() {
  const std::uint64_t one = 1;
  (void)!::write(bell_.get(), &one, sizeof one);
}

void ShmCommunicator::start_send(int to, std::uint64_t tag, const Tensor& tensor,
                                 const WorkPtr& work) {
  try {
    at(to)->sender.send(arena_, tag, tensor, work);
  } catch (const Error& error) {
    fail(error);
  }
}

void ShmCommunicator::start_receive(int from, std::uint64_t tag, const TensorMeta& meta,
                                    const ReceivePtr& receive) {
  inbox_.expect({from, tag},
                std::make_shared<ReceiveWaiter<ShmArrival>>(*this, from, tag, meta, receive));
}

void ShmCommunicator::interrupt(const Error& error) {
  interrupted_ = true;
  for (const auto& peer : peers_)
    if (peer) peer->sender.close(error);
  inbox_.close(error);
}

void ShmCommunicator::warn(int peer, const Error& error) {
  Signal warning;
  warning.kind = Signal::Kind::warning;
  warning.number = static_cast<std::uint32_t>(error.code());
  warning.text = warning_of(error);
  send_signal(at(peer)->connection->socket(), warning);
}

void ShmCommunicator::serve() {
  while (!stopping_) {
    bool busy = false;
    for (int i = 0; i < looks_before_sleep && !busy; ++i) busy = look();
    if (!busy) sleep();
  }
}

bool ShmCommunicator::look() {
  const std::lock_guard lock(receiving_);
  if (interrupted_) return false;
  bool busy = false;
  for (int rank = 0; rank < size(); ++rank) {
    Peer* peer = at(rank);
    if (!peer) continue;
    try {
      if (!peer->hung_up && drain(rank)) busy = true;
      if (peer->sender.waits() && peer->sender.flush()) busy = true;
      if (peer->sender.is_damaged())
        throw peer->receiver.damaged("a position in its ring is impossible");
    } catch (const Error& error) {
      fail(error);
      return true;
    }
  }
  return busy;
}

/// Raises the flags before the last look, and a peer writes before it reads them: so either this
/// rank sees the descriptor or the peer sees the flag.
void ShmCommunicator::sleep() {
  bool waits = false;
  for (const auto& peer : peers_) waits = waits || (peer && peer->sender.waits());
  {
    const std::lock_guard lock(attention_);
    if (!may_wait_) raise_flags(1);
  }
  for (const auto& peer : peers_)
    if (peer) peer->connection->mine().wants_room = waits ? 1 : 0;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!look() && !stopping_) wait_for_event();
  raise_flags(0);  // the receiving thread looks again before it sleeps
}

void ShmCommunicator::raise_flags(std::uint32_t sleeping) {
  for (const auto& peer : peers_)
    if (peer) peer->connection->mine().sleeping = sleeping;
}

void ShmCommunicator::defer_delivery() {
  const std::lock_guard lock(attention_);
  may_wait_ = true;
  raise_flags(0);
}

/// The receiving thread may sleep without raised flags, so this raises them for it before it looks:
/// as in sleep(), one of the two sees each arrival.
void ShmCommunicator::deliver_pending() {
  {
    const std::lock_guard lock(attention_);
    if (!may_wait_) return;
    may_wait_ = false;
    raise_flags(1);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  look();
}

void ShmCommunicator::wait_for_event() {
  std::vector<pollfd> waits{{bell_.get(), POLLIN, 0}};
  std::vector<int> ranks{rank()};
  std::unique_lock lock(receiving_);
  for (int rank = 0; rank < size(); ++rank) {
    const Peer* peer = at(rank);
    if (!peer || peer->hung_up || interrupted_) continue;
    const int events = peer->sender.waits_for_socket() ? POLLIN | POLLOUT : POLLIN;
    waits.push_back({peer->connection->socket(), static_cast<short>(events), 0});
    ranks.push_back(rank);
  }
  lock.unlock();
  ::poll(waits.data(), waits.size(), -1);
  std::uint64_t rings = 0;
  (void)!::read(bell_.get(), &rings, sizeof rings);
  lock.lock();
  for (std::size_t i = 1; i < waits.size() && !interrupted_; ++i) {
    if ((waits[i].revents & POLLOUT) != 0) at(ranks[i])->sender.socket_has_room();
    if ((waits[i].revents & ~POLLOUT) != 0) read_signals(ranks[i]);
  }
}

bool ShmCommunicator::drain(int rank) {
  Peer& peer = *at(rank);
  bool any = false;
  for (std::uint64_t i = 0; i < Ring::capacity && !interrupted_; ++i) {
    auto arrival = peer.receiver.next_tensor();
    if (!arrival) break;
    any = true;
    inbox_.arrive({rank, arrival->tag}, std::move(*arrival));
  }
  if (any) peer.connection->ring_for_room();
  return any;
}

void ShmCommunicator::read_signals(int rank) {
  Peer& peer = *at(rank);
  try {
    while (!peer.hung_up)
      if (const auto signal = peer.receiver.next_signal())
        handle(rank, *signal);
      else
        return;
  } catch (const Error& error) {
    peer.hung_up = true;
    fail(error);
  }
}

void ShmCommunicator::handle(int rank, const Signal& signal) {
  Peer& peer = *at(rank);
  switch (signal.kind) {
    case Signal::Kind::warning:
      return end_as_reported(signal.number, signal.text);
    case Signal::Kind::lost:
      peer.hung_up = true;
      return fail(
          Error(ErrorCode::peer_lost,
                fmt::format("{}: rank {} is lost: its process ended without a closing message",
                            where(), rank),
                "see that rank's log"));
    case Signal::Kind::closing: {
      while (drain(rank)) {
      }
      peer.hung_up = true;
      const Error error = left(rank);
      peer.sender.close(error);
      return inbox_.leave(rank, error);
    }
    case Signal::Kind::hello:
    case Signal::Kind::segment:
      return;  // handled by the receiver
  }
}

}  // namespace troupe::transport
