// The member's side towards its peers: lazily made connections, messages in order.

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "runtime/control/detail/member_loop.h"

namespace troupe::control {

MemberLoop::Peer& MemberLoop::peer(int rank) {
  Peer& peer = conversations_[rank];
  if (!peer.session)
    peer.session = std::make_unique<Session>([this, rank, &peer](const std::string& frame) {
      ++counters_.sent;
      if (peer.socket) {
        peer.socket->send(zmq::buffer(frame), zmq::send_flags::dontwait);
        return;
      }
      // Nothing was ever sent there: acknowledgements go back the way the messages came.
      const std::string route = route_of(sessions_[static_cast<std::size_t>(rank)]);
      router_.send(zmq::buffer(route), zmq::send_flags::sndmore | zmq::send_flags::dontwait);
      router_.send(zmq::buffer(frame), zmq::send_flags::dontwait);
      router_unread_ = true;
    });
  return peer;
}

void MemberLoop::connect(int rank, Peer& peer) {
  const PeerInfo& info = peers_[static_cast<std::size_t>(rank)];
  zmq::socket_t socket = messaging_->client(zmq::socket_type::dealer, options_.key);
  socket.set(zmq::sockopt::routing_id, route_of(own_session_));
  socket.set(zmq::sockopt::ipv6, info.address().find(':') != std::string::npos);
  socket.connect(tcp_endpoint(info.address(), info.port));
  peer.socket = std::move(socket);
}

void MemberLoop::send_now(int to, std::string body) {
  if (phase_ != Phase::in || gone_[static_cast<std::size_t>(to)]) return;
  Peer& receiver = peer(to);
  if (!receiver.socket) try {
      connect(to, receiver);
    } catch (const zmq::error_t& error) {
      const PeerInfo& info = peers_[static_cast<std::size_t>(to)];
      return lose_peer({to, info.host(), info.pid,
                        fmt::format("this process cannot connect to it: {}", error.what())});
    }
  wire::Envelope envelope;
  envelope.set_message(std::move(body));
  receiver.session->send(stamp(), envelope, Clock::now());
  busy_ = true;
  constexpr std::size_t drain_each = 256;
  if (receiver.session->kept() % drain_each == 0) drain(receiver);
}

/// Reads the acknowledgements that come back on the connection to a peer. They are not urgent, so
/// the thread does not wait for them.
void MemberLoop::drain(Peer& peer) {
  std::vector<zmq::message_t> parts;
  while (peer.socket && receive_parts(*peer.socket, parts))
    for (const zmq::message_t& part : parts) take_acknowledgement(part.to_string_view());
}

void MemberLoop::take_peers() {
  if (!router_unread_) return;
  constexpr int most_at_once = 1000;  // then timers and commands get their turn
  std::vector<zmq::message_t> parts;
  for (int i = 0; i < most_at_once; ++i) {
    if (!receive_parts(router_, parts)) {
      router_unread_ = false;
      return;
    }
    if (parts.size() == 2)
      take_frame(parts[1].to_string_view());
    else
      ++counters_.malformed;
  }
}

/// Whether the envelope comes from this world, and from the very process that holds its rank there.
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

void MemberLoop::take_frame(std::string_view frame) {
  ++counters_.frames;
  auto envelope = decode(frame);
  if (!envelope) {
    ++counters_.malformed;
    return;
  }
  if (!fits(*envelope)) return;
  const int from = static_cast<int>(envelope->from()) - 1;
  busy_ = true;
  if (peer(from).session->receive(stamp(), *envelope, counters_, Clock::now()) &&
      envelope->body_case() == wire::Envelope::kMessage)
    deliver(from, std::move(*envelope->mutable_message()));
}

/// What comes back on an own connection; peers send their messages on theirs.
void MemberLoop::take_acknowledgement(std::string_view frame) {
  ++counters_.frames;
  const auto envelope = decode(frame);
  if (!envelope || envelope->sequence() != 0)
    ++counters_.malformed;
  else if (fits(*envelope))
    peer(static_cast<int>(envelope->from()) - 1)
        .session->receive(stamp(), *envelope, counters_, Clock::now());
}

void MemberLoop::deliver(int from, std::string body) {
  if (on_message_)
    on_message_(from, std::move(body));
  else
    early_messages_.emplace_back(from, std::move(body));
}

void MemberLoop::drop_peer(int rank) {
  gone_[static_cast<std::size_t>(rank)] = true;
  conversations_.erase(rank);
}

void MemberLoop::lose_peer(const PeerLost& lost) {
  if (gone_[static_cast<std::size_t>(lost.rank)]) return;
  drop_peer(lost.rank);
  if (on_lost_)
    on_lost_(lost);
  else
    early_losses_.push_back(lost);
}

}  // namespace troupe::control
