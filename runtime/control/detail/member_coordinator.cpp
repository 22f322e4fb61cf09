// The member's side towards the coordinator: joining, what it is told, signs of life, leaving.

#include <fmt/format.h>

#include <algorithm>

#include "runtime/control/detail/coordinator_loop.h"
#include "runtime/control/detail/member_loop.h"
#include "runtime/text.h"

namespace troupe::control {
namespace {

/// The handshake of a restarting coordinator may break off; three in a row are a wrong key.
constexpr int closed_doors_of_a_wrong_key = 3;
constexpr std::chrono::milliseconds search_interval{200};

}  // namespace

void MemberLoop::take_events() {
  SocketEvents::Event event;
  while (events_->next(event)) switch (event.what) {
      case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        joining_.greeted = true;
        closed_doors_ = 0;
        // The connection before may have lost something.
        if (phase_ == Phase::in) coordinator_session_->pulse(stamp(), Clock::now());
        break;
      case ZMQ_EVENT_DISCONNECTED:
        if (joining_.greeted && phase_ == Phase::in)
          probe_ = std::make_unique<Probe>(coordinator_at_.host, coordinator_at_.port);
        if (joining_.greeted)
          joining_.broken = Clock::now();
        else
          ++closed_doors_;
        joining_.greeted = false;
        break;
      default:
        ++closed_doors_;
        joining_.greeted = false;
    }
  // Where the coordinator is looked up, so is the key: the place may be one of a run before.
  if (phase_ == Phase::joining && closed_doors_ >= closed_doors_of_a_wrong_key &&
      !options_.find_coordinator)
    fail_join(
        Error(ErrorCode::refused,
              fmt::format("{}: {} closes the connection of process {} on {} "
                          "before a word is said",
                          Member::wrong_key, coordinator_endpoint_, getpid(), options_.host),
              "start all with the same --rdzv-id, and the same TROUPE_JOB_KEY or job file; if "
              "another job or program has that port, choose another one"));
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
  // A refusal says why another version or run does not fit, so it comes first.
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
  if (!joining_.first_heard) joining_.first_heard = now;
  busy_ = true;
  if (!coordinator_session_->receive(stamp(), envelope, counters_, now)) return;
  if (envelope.has_welcome() && phase_ == Phase::joining) {
    generation_ = envelope.generation();
    take_welcome(envelope.welcome());
  } else if (envelope.has_gone() && phase_ == Phase::in) {
    take_gone(envelope.gone());
  } else if (envelope.has_answer()) {
    const wire::Answer& answer = envelope.answer();
    if (leave_request_ == answer.id()) phase_ = Phase::left;
    auto request = requests_.extract(answer.id());
    if (request.empty()) return;
    if (answer.error().empty())
      request.mapped().set_value(std::move(*envelope.mutable_answer()->mutable_value()));
    else
      request.mapped().set_value(Error(ErrorCode::peer_lost, answer.error()));
  }
}

void MemberLoop::take_welcome(const wire::Welcome& welcome) {
  rank_ = static_cast<int>(welcome.rank());
  std::vector<std::shared_ptr<const HostInfo>> hosts;
  for (const auto& host : welcome.hosts())
    hosts.push_back(
        std::make_shared<HostInfo>(HostInfo{host.name(), host.address(), host.identity()}));
  const int size = welcome.host_size();
  peers_.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank)
    peers_.push_back({rank, hosts[welcome.host(rank)], static_cast<int>(welcome.port(rank)),
                      static_cast<int>(welcome.pid(rank))});
  sessions_.assign(welcome.session().begin(), welcome.session().end());
  gone_.assign(static_cast<std::size_t>(size), false);
  // Peers may know of the world before this process does: what they have sent waits until now.
  descriptors_.add(router_.get(zmq::sockopt::fd), of_peers);
  note_unread(of_peers);
  phase_ = Phase::in;
  joined_.set_value(success());
}

void MemberLoop::take_gone(const wire::Gone& gone) {
  for (const std::uint32_t rank : gone.rank()) {
    if (rank >= peers_.size()) continue;
    const PeerInfo& info = peers_[rank];
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
  const PeerInfo& own = peers_[static_cast<std::size_t>(rank_)];
  lose_peer({rank_, own.host(), own.pid, error.message()});
}

/// The name of the host that the coordinator is on, where a process of the world is there as well.
std::string MemberLoop::coordinator_host() const {
  const auto near = std::ranges::find(peers_, coordinator_at_.host, &PeerInfo::address);
  return near == peers_.end() ? coordinator_at_.host : near->host();
}

void MemberLoop::lose_coordinator(const std::string& reason) {
  if (coordinator_lost_ || phase_ != Phase::in) return;
  coordinator_lost_ = true;
  lost_coordinator_ = coordinator_endpoint_;
  probe_.reset();
  const PeerLost lost{PeerLost::coordinator, coordinator_host(), 0, reason};
  fail_requests(Error(ErrorCode::peer_lost, to_string(lost)));
  news_.emplace_back(lost);
}

void MemberLoop::fail_requests(const Error& error) {
  for (auto& [id, promise] : std::exchange(requests_, {})) promise.set_value(error);
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
    return fail_join(Error(ErrorCode::refused, "stopped before all processes were here"));
  if (!joining_.greeted && options_.find_coordinator && now - last_search_ >= search_interval) {
    last_search_ = now;
    look_for_coordinator();
  }
  if (now >= joining_.end(options_.timeout)) fail_join(no_answer(now));
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
  // The join is still kept: the next pulse finds out that it has to be sent again.
  connect_coordinator(found, place);
  closed_doors_ = 0;
}

/// By how far it came with the coordinator.
Error MemberLoop::no_answer(Clock::time_point now) const {
  const std::string waited =
      in_words(std::chrono::duration_cast<std::chrono::milliseconds>(now - joining_.started));
  const std::string who = fmt::format("process {} on {}", getpid(), options_.host);
  if (!joining_.greeted && !joining_.broken)
    return {ErrorCode::timed_out,
            fmt::format("no coordinator of run '{}' answered at {} within {} ({})", options_.run,
                        coordinator_endpoint_, waited, who),
            "check that host and port are right, that rank 0 or the launcher runs, and that no "
            "firewall is between"};
  return {
      ErrorCode::timed_out,
      fmt::format("the coordinator of run '{}' at {} {} the connection of {} and told it nothing "
                  "more within {}",
                  options_.run, coordinator_endpoint_, joining_.greeted ? "took" : "broke", who,
                  waited),
      "look at rank 0 or the launcher, which holds it: whether it runs still, is stopped, or "
      "has too little of a processor"};
}

void MemberLoop::look_at_probe(Clock::time_point now) {
  if (!probe_) return;
  const Probe::Finding finding = probe_->look(now);
  if (finding != Probe::Finding::pending) probe_.reset();
  if (finding == Probe::Finding::ended) lose_coordinator("its process ended");
}

void MemberLoop::look_at_clock(Clock::time_point now) {
  // A process that was stopped itself must not take that for the silence of the others.
  if (now - last_round_ > longest_round(options_.timeout)) forgive_until_ = now + options_.timeout;
  last_round_ = now;
  if (now - last_maintenance_ >= step()) maintain(now);
}

Clock::duration MemberLoop::step() const {
  return busy_ ? std::min<Clock::duration>(Session::tick, heartbeat_) : heartbeat_;
}

void MemberLoop::maintain(Clock::time_point now) {
  last_maintenance_ = now;
  const bool forgiving = now < forgive_until_;
  // In a crowd the first handshake takes its time, and what is asked meanwhile comes all at once.
  const bool has_met = joining_.greeted || phase_ != Phase::joining;
  if (has_met) coordinator_session_->maintain(stamp(), now);
  busy_ = !coordinator_session_->is_quiet() || phase_ == Phase::joining;
  if (has_met && now - last_heartbeat_ >= heartbeat_) {
    last_heartbeat_ = now;
    coordinator_session_->keep_alive(stamp(), now, heartbeat_);
  }
  if (phase_ == Phase::in && !forgiving &&
      now - coordinator_session_->last_heard() > options_.timeout)
    lose_coordinator(fmt::format("no sign of life for {}", in_words(options_.timeout)));
  std::vector<int> silent;
  for (auto& [rank, peer] : conversations_) {
    peer.session->maintain(stamp(), now);
    busy_ = busy_ || !peer.session->is_quiet();
    if (!forgiving && peer.session->silence(now) > options_.timeout) silent.push_back(rank);
  }
  for (const int rank : silent) {
    const PeerInfo& info = peers_[static_cast<std::size_t>(rank)];
    const std::string reason = fmt::format("rank {} on {} has sent to it and heard nothing for {}",
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
