// A member and its peers: connections on demand, messages in order.

#include <fmt/format.h>

#include "runtime/control/detail/member_loop.h"

namespace troupe::control {

MemberLoop::Peer& MemberLoop::peer(int rank) {
  Peer& peer = conversations_[rank];
  if (!peer.session)
    peer.session = std::make_unique<Session>(
        [this, rank, &peer](const std::string& frame) { transmit(rank, peer, frame); });
  return peer;
}

void MemberLoop::transmit(int rank, Peer& peer, const std::string& frame) {
  ++counters_.sent;
  if (peer.socket) {
    send_now(*peer.socket, frame);
    return look_for_input(*peer.socket, rank);
  }
  const std::string route = route_of(sessions_[static_cast<std::size_t>(rank)]);
  send_now(router_, route, zmq::send_flags::sndmore);
  send_now(router_, frame);
  look_for_input(router_, of_peers);
}

void MemberLoop::connect(int rank, Peer& peer) {
  const ProcessInfo& info = processes_[static_cast<std::size_t>(rank)];
  zmq::socket_t socket = messaging_->client(zmq::socket_type::dealer, options_.key);
  socket.set(zmq::sockopt::routing_id, route_of(own_session_));
  socket.set(zmq::sockopt::ipv6, info.address().find(':') != std::string::npos);
  undisturbed([&] { socket.connect(tcp_endpoint(info.address(), info.port)); });
  descriptors_.add(socket.get(zmq::sockopt::fd), rank);
  peer.socket = std::move(socket);
}

void MemberLoop::send(int to, std::string body) {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::in || gone_[static_cast<std::size_t>(to)]) return;
  Peer& receiver = peer(to);
  if (!receiver.socket && !receiver.has_come) try {
      connect(to, receiver);
    } catch (const std::exception& error) {
      const ProcessInfo& info = processes_[static_cast<std::size_t>(to)];
      lose_peer({to, info.host(), info.pid,
                 fmt::format("this process cannot connect to it: {}", error.what())});
      return wake();
    }
  wire::Envelope envelope;
  envelope.set_message(std::move(body));
  receiver.session->send(stamp(), envelope, Clock::now());
  stay_busy();
}

/// Whether the socket is read to its end.
bool MemberLoop::take_peers(zmq::socket_t& socket, std::unique_lock<std::mutex>& lock) {
  constexpr int most_at_once = 100;  // then callbacks, timers and senders have their turn
  const std::size_t expected = &socket == &router_ ? 2 : 1;
  for (int i = 0; i < most_at_once; ++i) {
    if (!receive_parts(socket, parts_)) return true;
    if (parts_.size() != expected)
      ++counters_.malformed;
    else
      take_frame(expected == 2 ? parts_[0].to_string_view() : std::string_view(),
                 parts_.back().to_string_view());
    deliveries_.deliver(lock);
  }
  return false;
}

/// Whether the envelope is from this world, and from the process that has its rank there.
bool MemberLoop::fits(const wire::Envelope& envelope) {
  if (envelope.version() != wire_version || envelope.run() != run_) {
    ++counters_.foreign;
    return false;
  }
  if (envelope.generation() != generation_) {
    ++counters_.stale;
    return false;
  }
  if (envelope.from() == 0 || envelope.from() > sessions_.size() ||
      sessions_[envelope.from() - 1] != envelope.session()) {
    ++counters_.foreign;
    return false;
  }
  if (gone_[envelope.from() - 1] || static_cast<int>(envelope.from()) == rank_ + 1) {
    ++counters_.stale;
    return false;
  }
  return true;
}

/// `route` is the sender's routing id, if it has connected to this process.
void MemberLoop::take_frame(std::string_view route, std::string_view frame) {
  ++counters_.frames;
  auto envelope = decode(frame);
  if (!envelope) {
    ++counters_.malformed;
    return;
  }
  if (!fits(*envelope)) return;
  const int from = static_cast<int>(envelope->from()) - 1;
  clock_.set_busy(true);
  Peer& sender = peer(from);
  sender.has_come = sender.has_come || route == route_of(envelope->session());
  if (sender.session->receive(stamp(), *envelope, counters_, Clock::now()) &&
      envelope->body_case() == wire::Envelope::kMessage)
    deliveries_.add(from, std::move(*envelope->mutable_message()));
}

void MemberLoop::drop_peer(int rank) {
  gone_[static_cast<std::size_t>(rank)] = true;
  const auto peer = conversations_.find(rank);
  if (peer == conversations_.end()) return;
  if (peer->second.socket) descriptors_.remove(peer->second.socket->get(zmq::sockopt::fd));
  conversations_.erase(peer);
}

void MemberLoop::lose_peer(const PeerLost& lost) {
  if (gone_[static_cast<std::size_t>(lost.rank)]) return;
  drop_peer(lost.rank);
  deliveries_.add(lost);
}

}  // namespace troupe::control
