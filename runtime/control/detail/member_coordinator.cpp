// A member and its coordinator: joining, announcements, heartbeats, leaving.

#include <fmt/format.h>

#include <algorithm>

#include "runtime/control/detail/coordinator_loop.h"
#include "runtime/control/detail/member_loop.h"
#include "runtime/text.h"

namespace troupe::control {
void MemberLoop::take_events() {
  SocketEvents::Event event;
  while (events_->next(event)) switch (event.what) {
      case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        joining_.handshake_succeeded();
        // The previous connection may have lost messages.
        if (phase_ == Phase::in) coordinator_session_->pulse(stamp(), Clock::now());
        break;
      case ZMQ_EVENT_DISCONNECTED:
        if (joining_.is_connected() && phase_ == Phase::in)
          probe_ = std::make_unique<Probe>(coordinator_at_.host, coordinator_at_.port);
        joining_.disconnected(Clock::now());
        break;
      default:
        joining_.handshake_failed();
    }
  // With find_coordinator the key is looked up too: the endpoint may be one of an earlier run.
  if (phase_ == Phase::joining && joining_.has_wrong_key() && !options_.find_coordinator)
    fail_join(wrong_key());
}

Error MemberLoop::wrong_key() const {
  return {ErrorCode::wrong_key,
          fmt::format("wrong job key: {} closes the connection of process {} on {} during the "
                      "handshake",
                      coordinator_endpoint_, getpid(), options_.host),
          "start all processes with the same `MemberOptions::run`, and the same TROUPE_JOB_KEY or "
          "job file; if another job or program uses that port, set `MemberOptions::coordinator` to "
          "another one"};
}

void MemberLoop::take_coordinator() {
  std::vector<zmq::message_t> parts;
  while (phase_ != Phase::left && phase_ != Phase::failed && receive_parts(*coordinator_, parts)) {
    for (const zmq::message_t& part : parts) {
      ++counters_.frames;
      auto envelope = decode(part.to_string_view());
      if (!envelope)
        ++counters_.malformed;
      else
        take_from_coordinator(*envelope);
    }
  }
}

void MemberLoop::take_from_coordinator(wire::Envelope& envelope) {
  // First: a refusal also answers processes of another version or run.
  if (envelope.has_refused()) return take_refused(envelope.refused());
  if (envelope.version() != wire_version || envelope.run() != run_ || envelope.from() != 0) {
    ++counters_.foreign;
    return;
  }
  if (coordinator_id_ == 0) coordinator_id_ = envelope.session();
  if (envelope.session() != coordinator_id_) {
    ++counters_.foreign;
    return;
  }
  if (phase_ == Phase::in && envelope.generation() != generation_) {
    ++counters_.stale;
    return;
  }
  const auto now = Clock::now();
  joining_.heard(now);
  clock_.set_busy(true);
  if (!coordinator_session_->receive(stamp(), envelope, counters_, now)) return;
  if (envelope.has_welcome() && phase_ == Phase::joining) {
    generation_ = envelope.generation();
    take_welcome(envelope.welcome());
  } else if (envelope.has_gone() && phase_ == Phase::in) {
    take_gone(envelope.gone());
  } else if (envelope.has_answer()) {
    const wire::Answer& answer = envelope.answer();
    if (leave_request_ == answer.id()) phase_ = Phase::left;
    if (answer.error().empty())
      requests_.answer(answer.id(), std::move(*envelope.mutable_answer()->mutable_value()));
    else
      requests_.answer(answer.id(), Error(ErrorCode::peer_lost, answer.error()));
  }
}

void MemberLoop::take_welcome(const wire::Welcome& welcome) {
  rank_ = static_cast<int>(welcome.rank());
  std::vector<std::shared_ptr<const HostInfo>> hosts;
  for (const auto& host : welcome.hosts())
    hosts.push_back(
        std::make_shared<HostInfo>(HostInfo{host.name(), host.address(), host.identity()}));
  const int size = welcome.host_size();
  processes_.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank)
    processes_.push_back({rank, hosts[welcome.host(rank)], static_cast<int>(welcome.port(rank)),
                          static_cast<int>(welcome.pid(rank))});
  sessions_.assign(welcome.session().begin(), welcome.session().end());
  gone_.assign(static_cast<std::size_t>(size), false);
  // Peers may have joined earlier: messages that they have sent wait until now.
  descriptors_.add(router_.get(zmq::sockopt::fd), of_peers);
  mark_unread(of_peers);
  phase_ = Phase::in;
  joined_.set_value(success());
}

void MemberLoop::take_gone(const wire::Gone& gone) {
  for (const std::uint32_t rank : gone.rank()) {
    if (rank >= processes_.size()) continue;
    const ProcessInfo& info = processes_[rank];
    if (gone.left())
      drop_peer(info.rank);
    else
      lose_peer({info.rank, info.host(), info.pid, gone.reason()});
  }
}

void MemberLoop::take_refused(const wire::Refused& refused) {
  const Error error = error_of(refused);
  if (phase_ == Phase::joining) return fail_join(error);
  if (phase_ != Phase::in) return;
  fail_requests(error);
  coordinator_lost_ = true;
  const ProcessInfo& own = processes_[static_cast<std::size_t>(rank_)];
  lose_peer({rank_, own.host(), own.pid, error.message()});
}

/// The name of the coordinator's host if a process of the world is on it, else its address.
std::string MemberLoop::coordinator_host() const {
  const auto near = std::ranges::find(processes_, coordinator_at_.host, &ProcessInfo::address);
  return near == processes_.end() ? coordinator_at_.host : near->host();
}

void MemberLoop::lose_coordinator(const std::string& reason) {
  if (coordinator_lost_ || phase_ != Phase::in) return;
  coordinator_lost_ = true;
  lost_coordinator_ = coordinator_endpoint_;
  probe_.reset();
  const PeerLost lost{PeerLost::coordinator, coordinator_host(), 0, reason};
  fail_requests(Error(ErrorCode::peer_lost, to_string(lost)));
  deliveries_.add(lost);
}

void MemberLoop::fail_requests(const Error& error) {
  requests_.fail_all(error);
  leave_request_.reset();
}

void MemberLoop::fail_join(const Error& error) {
  if (phase_ != Phase::joining) return;
  phase_ = Phase::failed;
  joined_.set_value(error);
}

void MemberLoop::look_at_join(Clock::time_point now) {
  if (phase_ != Phase::joining) return;
  if (given_up_)
    return fail_join(Error(ErrorCode::refused, "stopped before all processes had joined"));
  if (options_.find_coordinator && joining_.take_search(now)) look_for_coordinator();
  if (now >= joining_.end())
    fail_join(joining_.has_wrong_key()
                  ? wrong_key()
                  : joining_.timed_out(now, options_.run, coordinator_endpoint_,
                                       fmt::format("process {} on {}", getpid(), options_.host)));
}

void MemberLoop::look_for_coordinator() {
  const std::string found = options_.find_coordinator();
  if (found.empty() || found == coordinator_endpoint_) return;
  HostAndPort place;
  try {
    place = resolved(found);
  } catch (const Error& error) {
    return fail_join(
        Error(error.code(),
              fmt::format("the job file names '{}' as the coordinator's place: {}", found,
                          error.message()),
              "remove the job file (TROUPE_JOB_FILE, else ~/.troupe/jobs/RUN) and start "
              "all processes again"));
  }
  // The session still keeps the join, and sends it again after the next pulse.
  connect_coordinator(found, place);
  joining_.redirected();
}

void MemberLoop::look_at_probe(Clock::time_point now) {
  if (!probe_) return;
  const Probe::Finding finding = probe_->look(now);
  if (finding != Probe::Finding::pending) probe_.reset();
  if (finding == Probe::Finding::ended) lose_coordinator("its process ended");
}

void MemberLoop::look_at_clock(Clock::time_point now) {
  clock_.begin_round(now);
  if (clock_.is_maintenance_due(now)) maintain(now);
}

void MemberLoop::maintain(Clock::time_point now) {
  clock_.begin_maintenance(now);
  const bool judges_silence = clock_.takes_silence_for_loss(now);
  // In a large world the first handshake takes long; messages before it would all arrive at once.
  const bool has_met = joining_.is_connected() || phase_ != Phase::joining;
  if (has_met) coordinator_session_->maintain(stamp(), now);
  bool busy = !coordinator_session_->is_quiet() || phase_ == Phase::joining;
  if (has_met && clock_.take_heartbeat(now))
    coordinator_session_->keep_alive(stamp(), now, clock_.heartbeat());
  if (phase_ == Phase::in && judges_silence &&
      now - coordinator_session_->last_heard() > options_.timeout)
    lose_coordinator(fmt::format("no heartbeat for {}", in_words(options_.timeout)));
  std::vector<int> silent;
  for (auto& [rank, peer] : conversations_) {
    peer.session->maintain(stamp(), now);
    busy = busy || !peer.session->is_quiet();
    if (judges_silence && peer.session->silence(now) > options_.timeout) silent.push_back(rank);
  }
  clock_.set_busy(busy);
  for (const int rank : silent) {
    const ProcessInfo& info = processes_[static_cast<std::size_t>(rank)];
    const std::string reason = fmt::format("rank {} on {} has received no answer from it for {}",
                                           rank_, options_.host, in_words(options_.timeout));
    wire::Envelope envelope;
    envelope.mutable_report()->set_rank(static_cast<std::uint32_t>(rank));
    envelope.mutable_report()->set_reason(reason);
    coordinator_session_->send(stamp(), envelope, now);
    lose_peer({rank, info.host(), info.pid, reason});
  }
}

void MemberLoop::leave_when_quiet() {
  if (!leave_request_ || leave_sent_ || phase_ != Phase::in) return;
  const bool all = std::all_of(conversations_.begin(), conversations_.end(), [](const auto& entry) {
    return entry.second.session->is_acknowledged();
  });
  if (!all && !leaves_at_once_) return;
  leave_sent_ = true;
  wire::Envelope envelope;
  envelope.mutable_leave()->set_id(*leave_request_);
  coordinator_session_->send(stamp(), envelope, Clock::now());
}

}  // namespace troupe::control
