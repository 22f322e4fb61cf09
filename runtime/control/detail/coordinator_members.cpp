// The coordinator's members: joining, requests, leaving and losses.

#include <fmt/format.h>

#include <algorithm>

#include "runtime/control/detail/coordinator_loop.h"

namespace troupe::control {

/// From a process that takes itself for a member.
void CoordinatorLoop::take_lost(const std::string& route, const wire::Envelope& envelope) {
  if (envelope.generation() == 0 && envelope.has_pulse()) {
    // Its join was lost with a connection, or sent to another endpoint: acknowledges nothing of it.
    wire::Envelope answer;
    answer.mutable_echo()->set_id(envelope.pulse().id());
    return send_once(route, answer);
  }
  refuse(route, refusal(wire::Refused::GENERATION,
                        "the world that this process belonged to has ended", "start it again"));
}

void CoordinatorLoop::take_stranger(const std::string& route, const wire::Envelope& envelope,
                                    int fd) {
  const wire::Join& join = envelope.join();
  if (envelope.sequence() != 1) return;  // its refusal was lost: it will send the join again
  const bool is_later = join.restart() > restart_;
  if (!seats_.empty() && join.restart() < restart_)
    return refuse(route, refusal(wire::Refused::GENERATION,
                                 fmt::format("process {} on {} belongs to restart {} of the job, "
                                             "which is now at restart {}",
                                             join.pid(), join.host(), join.restart(), restart_),
                                 "end it"));
  if (is_later && !seats_.empty()) supersede(join.restart());
  bool ended = false;
  {
    const std::lock_guard lock(mutex_);
    ended = ended_;
  }
  if (ended) begin_generation();
  auto refused = roster_.admit(join, envelope.session());
  if (refused && refused->reason() == wire::Refused::RANK && make_room(join.rank()))
    refused = roster_.admit(join, envelope.session());
  if (refused) return turn_away(route, std::move(*refused));
  if (seats_.empty()) first_join_ = Clock::now();
  restart_ = join.restart();
  if (options_.timeout_of_members && join.timeout_ms() > 0) {
    options_.timeout = std::chrono::milliseconds(join.timeout_ms());
    clock_.set_timeout(options_.timeout);
  }
  auto seat = std::make_unique<Seat>();
  seat->route = route;
  seat->id = envelope.session();
  seat->join = join;
  seat->session = std::make_unique<Session>(
      [this, route](const std::string& frame) { transmit(route, frame); });
  Seat& taken = *(seats_[route] = std::move(seat));
  track_connection(taken, fd);
  {
    const std::lock_guard lock(mutex_);
    taken.session->receive(stamp(), envelope, counters_, Clock::now());
  }
  clock_.set_busy(true);
  if (roster_.is_whole()) form_world();
}

/// A process whose connection has broken while it waited for the world to be whole does not keep
/// its rank from its replacement. Whether it had one.
bool CoordinatorLoop::make_room(std::uint32_t rank_plus_one) {
  take_events();
  for (Seat* seat : probed_)
    if (seat->state == State::joining && rank_plus_one != 0 && seat->join.rank() == rank_plus_one) {
      lose(*seat, {});
      return true;
    }
  return false;
}

/// Not all have joined in time. Only the first member that has joined is to report it.
void CoordinatorLoop::give_world_up() {
  wire::Refused refused = roster_.timeout(options_.timeout);
  std::vector<const Seat*> here;
  for (const auto& [route, seat] : seats_) here.push_back(seat.get());
  std::ranges::sort(here, {}, [](const Seat* seat) { return seat->join.rank(); });
  for (const Seat* seat : here) {
    refuse(seat->route, refused);
    refused.set_reported(true);
  }
  begin_generation();
}

/// The launcher has restarted all processes: refuses those of earlier restarts.
void CoordinatorLoop::supersede(std::uint32_t restart) {
  for (const auto& [route, seat] : seats_)
    if (seat->is_here())
      refuse(route,
             refusal(wire::Refused::GENERATION,
                     fmt::format("restart {} of the job has begun", restart), "end this process"));
  begin_generation();
}

/// Everything about the former world is forgotten, but the ranks that were chosen here.
void CoordinatorLoop::begin_generation() {
  seats_.clear();
  by_rank_.clear();
  by_fd_.clear();
  probed_.clear();
  here_ = 0;
  departed_.clear();
  departed_before_ = 0;
  roster_.clear();
  store_.clear();
  const std::lock_guard lock(mutex_);
  if (whole_) ++generation_;
  whole_ = false;
  ended_ = false;
}

void CoordinatorLoop::form_world() {
  const auto sessions = roster_.assign();
  std::unordered_map<std::uint64_t, Seat*> by_session;
  for (const auto& [route, seat] : seats_) by_session[seat->id] = seat.get();
  whole_ = true;
  here_ = static_cast<int>(sessions.size());
  by_rank_.resize(sessions.size());
  wire::Envelope envelope;
  *envelope.mutable_welcome() = roster_.welcome(sessions);
  for (std::size_t rank = 0; rank < sessions.size(); ++rank) {
    Seat& seat = *by_session.at(sessions[rank]);
    seat.rank = static_cast<int>(rank);
    seat.state = State::in;
    by_rank_[rank] = &seat;
    envelope.mutable_welcome()->set_rank(static_cast<std::uint32_t>(rank));
    seat.session->send(stamp(), envelope, Clock::now());
  }
}

void CoordinatorLoop::take_member(Seat& seat, wire::Envelope& envelope) {
  if (seat.state == State::lost)
    return refuse(seat.route,
                  refusal(wire::Refused::LOST, "the coordinator has declared this process lost",
                          "end this process: another process may have its rank"));
  // Heartbeats and the join itself may still come from before the welcome arrived.
  const bool is_early = envelope.generation() == 0 &&
                        (envelope.has_join() || envelope.has_pulse() || envelope.has_echo());
  bool is_next = false;
  {
    const std::lock_guard lock(mutex_);
    if (envelope.generation() != generation_ && !is_early) {
      ++counters_.stale;
      return;
    }
    is_next = seat.session->receive(stamp(), envelope, counters_, Clock::now());
  }
  // A member that has left acknowledges nothing, so it is sent nothing. If it sends a pulse, the
  // answer to its leave was lost with a connection: a pulse finds out what it has received.
  if (seat.state == State::left) {
    if (envelope.has_pulse()) seat.session->pulse(stamp(), Clock::now());
    return;
  }
  // A new connection begins with a pulse. Other frames may be late ones of the connection before.
  const bool is_back = envelope.has_pulse() && std::exchange(seat.has_broken, false);
  if (is_back && !seat.session->is_acknowledged()) seat.session->pulse(stamp(), Clock::now());
  if (!seat.session->is_quiet()) clock_.set_busy(true);
  if (is_next) serve(seat, envelope);
}

void CoordinatorLoop::serve(Seat& seat, wire::Envelope& envelope) {
  if (seat.state != State::in) return;
  if (envelope.has_leave()) return leave(seat, envelope.leave().id());
  const int rank = seat.rank;
  clock_.set_busy(true);
  if (envelope.has_put())
    store_.put({rank, envelope.put().id()}, envelope.put().key(),
               std::move(*envelope.mutable_put()->mutable_value()));
  else if (envelope.has_get() && envelope.get().cancel())
    store_.cancel({rank, envelope.get().id()}, envelope.get().key());
  else if (envelope.has_get() && envelope.get().claim())
    store_.claim({rank, envelope.get().id()}, envelope.get().key());
  else if (envelope.has_get())
    store_.get({rank, envelope.get().id()}, envelope.get().key());
  else if (envelope.has_arrive())
    serve_arrival(seat, envelope.arrive());
  else if (envelope.has_report())
    report_lost(static_cast<int>(envelope.report().rank()), envelope.report().reason());
}

void CoordinatorLoop::serve_arrival(const Seat& seat, const wire::Arrive& arrive) {
  if (arrive.cancel())
    store_.cancel_arrival({seat.rank, arrive.id()}, arrive.barrier());
  else
    store_.arrive({seat.rank, arrive.id()}, arrive.barrier(), options_.size);
}

void CoordinatorLoop::leave(Seat& seat, std::uint64_t request) {
  wire::Envelope envelope;
  envelope.mutable_answer()->set_id(request);
  seat.session->send(stamp(), envelope, Clock::now());
  seat.state = State::left;
  --here_;
  if (departed_.empty()) departed_since_ = Clock::now();
  departed_.push_back(seat.rank);
  clock_.set_busy(true);
  store_.gone(seat.rank);
  store_.close_barriers(fmt::format("rank {} on {} has left", seat.rank, seat.join.host()));
  end_if_empty();
}

void CoordinatorLoop::report_lost(int rank, const std::string& reason) {
  if (rank < 0 || rank >= static_cast<int>(by_rank_.size())) return;
  lose(*by_rank_[static_cast<std::size_t>(rank)], reason);
}

void CoordinatorLoop::lose(Seat& seat, const std::string& reason) {
  if (seat.state == State::joining) {
    roster_.withdraw(seat.id);
    remove(seat);
    return;
  }
  if (seat.state != State::in) return;
  seat.state = State::lost;
  --here_;
  refuse(seat.route,
         refusal(wire::Refused::LOST,
                 fmt::format("the coordinator has declared this process lost: {}", reason),
                 "end this process: another process may have its rank"));
  announce_gone({seat.rank}, false, reason);
  store_.gone(seat.rank);
  store_.close(fmt::format("rank {} on {} (process {}) is lost: {}", seat.rank, seat.join.host(),
                           seat.join.pid(), reason));
  end_if_empty();
}

void CoordinatorLoop::announce_gone(const std::vector<int>& ranks, bool left,
                                    const std::string& reason) {
  const auto now = Clock::now();
  wire::Envelope envelope;
  for (const int rank : ranks) envelope.mutable_gone()->add_rank(static_cast<std::uint32_t>(rank));
  envelope.mutable_gone()->set_left(left);
  envelope.mutable_gone()->set_reason(reason);
  for (Seat* other : by_rank_)
    if (other->state == State::in) other->session->send(stamp(), envelope, now);
  clock_.set_busy(true);
}

void CoordinatorLoop::end_if_empty() {
  if (here_ > 0) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ended_changed_.notify_all();
}

}  // namespace troupe::control
