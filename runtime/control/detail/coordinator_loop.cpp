#include "runtime/control/detail/coordinator_loop.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <random>

namespace troupe::control {
Clock::duration heartbeat_interval(std::chrono::milliseconds timeout) {
  using std::chrono::milliseconds;
  return std::clamp(timeout / 10, milliseconds(10), milliseconds(1000));
}

std::uint64_t random_session() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

CoordinatorLoop::CoordinatorLoop(const CoordinatorOptions& options)
    : options_(options),
      messaging_(options.messaging ? options.messaging : std::make_shared<MessagingContext>()),
      router_(messaging_->server(zmq::socket_type::router, options.key)),
      events_(messaging_->zmq(), router_, ZMQ_EVENT_DISCONNECTED),
      run_(run_tag(options.run)),
      own_session_(random_session()),
      heartbeat_(heartbeat_interval(options.timeout)),
      roster_(options.run, options.size),
      board_([this](Board::Ticket to, const std::string& value, const std::string& error) {
        Seat* seat = by_rank_[static_cast<std::size_t>(to.rank)];
        if (seat->state != State::in) return;
        wire::Envelope envelope;
        envelope.mutable_answer()->set_id(to.id);
        envelope.mutable_answer()->set_value(value);
        envelope.mutable_answer()->set_error(error);
        seat->session->send(stamp(), envelope, Clock::now());
      }) {
  router_.set(zmq::sockopt::router_mandatory, true);
  router_.set(zmq::sockopt::router_handover, true);
  router_.set(zmq::sockopt::ipv6, options.address.find(':') != std::string::npos);
  const std::string wanted = tcp_endpoint(options.address, options.port);
  try {
    // Port 0 asks the system for a free one.
    router_.bind(wanted);
  } catch (const zmq::error_t& error) {
    throw Error(ErrorCode::io,
                fmt::format("the coordinator cannot listen on {}: {}", wanted, error.what()),
                error.num() == EADDRINUSE
                    ? "another run's coordinator may be there: end it, or choose another port"
                    : "check the address: it has to be one of this machine");
  }
  endpoint_ = router_.get(zmq::sockopt::last_endpoint);
}

Stamp CoordinatorLoop::stamp() const { return {run_, generation_, 0, own_session_}; }

void CoordinatorLoop::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wakeup_.ring();
}

void CoordinatorLoop::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wakeup_.ring();
}

std::uint32_t CoordinatorLoop::generation() const {
  const std::lock_guard lock(mutex_);
  return generation_;
}

ControlCounters CoordinatorLoop::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

bool CoordinatorLoop::wait_for_end(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return ended_changed_.wait_for(lock, timeout, [&] { return ended_; });
}

void CoordinatorLoop::run() {
  for (;;) {
    wait();
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    run_tasks();
    take_events();
    take_frames();
    const auto now = Clock::now();
    look_at_probes(now);
    look_at_clock(now);
  }
}

void CoordinatorLoop::wait() {
  std::vector<zmq::pollitem_t> items{{router_.handle(), 0, ZMQ_POLLIN, 0},
                                     {events_.socket().handle(), 0, ZMQ_POLLIN, 0},
                                     {nullptr, wakeup_.fd(), ZMQ_POLLIN, 0}};
  auto until = Clock::now() + (busy_ ? Clock::duration(Session::tick) : heartbeat_);
  if (probing_)
    for (const auto& [route, seat] : seats_)
      if (seat->probe) {
        if (seat->probe->fd() >= 0) items.push_back({nullptr, seat->probe->fd(), ZMQ_POLLOUT, 0});
        until = std::min(until, seat->probe->next_look());
      }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  zmq::poll(items, std::max(left, std::chrono::milliseconds(0)));
}

void CoordinatorLoop::run_tasks() {
  wakeup_.quiet();
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const auto& task : tasks) task();
}

/// A broken connection is followed up: a port that refuses belongs to a process that ended.
void CoordinatorLoop::take_events() {
  SocketEvents::Event event;
  while (events_.next(event))
    for (const auto& [route, seat] : seats_)
      if (seat->fd == event.value && seat->is_here()) {
        seat->probe =
            std::make_unique<Probe>(seat->join.address(), static_cast<int>(seat->join.port()));
        probing_ = true;
      }
}

void CoordinatorLoop::take_frames() {
  constexpr int most_at_once = 1000;  // then timers and probes get their turn
  std::vector<zmq::message_t> parts;
  for (int i = 0; i < most_at_once && receive_parts(router_, parts); ++i) {
    if (parts.size() == 2) {
      take(parts[0].to_string(), parts[1]);
    } else {
      const std::lock_guard lock(mutex_);
      ++counters_.malformed;
    }
  }
}

void CoordinatorLoop::transmit(const std::string& route, const std::string& frame) {
  try {
    router_.send(zmq::buffer(route), zmq::send_flags::sndmore | zmq::send_flags::dontwait);
    router_.send(zmq::buffer(frame), zmq::send_flags::dontwait);
  } catch (const zmq::error_t& error) {
    if (error.num() != EHOSTUNREACH) throw;  // no connection now: the session sends it again
  }
}

void CoordinatorLoop::refuse(const std::string& route, wire::Refused refused) {
  wire::Envelope envelope;
  *envelope.mutable_refused() = std::move(refused);
  send_once(route, envelope);
}

void CoordinatorLoop::send_once(const std::string& route, wire::Envelope& envelope) {
  Session session([&](const std::string& frame) { transmit(route, frame); });
  session.send_unnumbered(stamp(), envelope);
}

void CoordinatorLoop::take(const std::string& route, zmq::message_t& frame) {
  const int fd = frame.get(ZMQ_SRCFD);
  auto envelope = decode(frame.to_string_view());
  const auto seat = seats_.find(route);
  std::unique_lock lock(mutex_);
  if (!envelope) {
    ++counters_.malformed;
    return;
  }
  if (envelope->version() != wire_version || envelope->run() != run_) {
    ++counters_.foreign;
    lock.unlock();
    if (envelope->version() != wire_version)
      refuse(route,
             refusal(wire::Refused::VERSION,
                     fmt::format("the process speaks version {} of the control messages, the "
                                 "coordinator version {}",
                                 envelope->version(), wire_version),
                     "start the same build of troupe everywhere"));
    else if (envelope->has_join())
      refuse(route, refusal(wire::Refused::RUN,
                            fmt::format("the coordinator serves another run than '{}'",
                                        envelope->join().run()),
                            "check the run's name (--rdzv-id), or whether an older run is still "
                            "there"));
    return;
  }
  if (seat != seats_.end() && seat->second->id != envelope->session()) {
    ++counters_.foreign;
    return;
  }
  if (seat != seats_.end()) {
    lock.unlock();
    seat->second->fd = fd;
    return take_member(*seat->second, *envelope);
  }
  if (!envelope->has_join()) {
    ++counters_.stale;
    lock.unlock();
    return take_lost(route, *envelope);
  }
  lock.unlock();
  take_stranger(route, *envelope, fd);
}

/// From somebody who thinks to be known here.
void CoordinatorLoop::take_lost(const std::string& route, const wire::Envelope& envelope) {
  if (envelope.generation() == 0 && envelope.has_pulse()) {
    // Its join was lost with a connection, or went to another place: nothing of it is acknowledged.
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
  if (envelope.sequence() != 1) return;  // its refusal was lost: the join itself comes again
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
  if (auto refused = roster_.admit(join, envelope.session()))
    return refuse(route, std::move(*refused));
  if (seats_.empty()) first_join_ = Clock::now();
  restart_ = join.restart();
  auto seat = std::make_unique<Seat>();
  seat->route = route;
  seat->id = envelope.session();
  seat->join = join;
  seat->fd = fd;
  seat->session = std::make_unique<Session>(
      [this, route](const std::string& frame) { transmit(route, frame); });
  Seat& taken = *(seats_[route] = std::move(seat));
  {
    const std::lock_guard lock(mutex_);
    taken.session->receive(stamp(), envelope, counters_, Clock::now());
  }
  busy_ = true;
  if (roster_.is_whole()) form_world();
}

/// The launcher has started all processes again: those of before have no place any more.
void CoordinatorLoop::supersede(std::uint32_t restart) {
  for (const auto& [route, seat] : seats_)
    if (seat->is_here())
      refuse(route,
             refusal(wire::Refused::GENERATION,
                     fmt::format("restart {} of the job has begun", restart), "end this one"));
  begin_generation();
}

/// Everything about the former world is forgotten, but the ranks that were chosen here.
void CoordinatorLoop::begin_generation() {
  seats_.clear();
  by_rank_.clear();
  departed_.clear();
  roster_.clear();
  board_.clear();
  const std::lock_guard lock(mutex_);
  if (whole_) ++generation_;
  whole_ = false;
  ended_ = false;
}

void CoordinatorLoop::form_world() {
  const auto sessions = roster_.assign();
  const wire::Welcome welcome = roster_.welcome(sessions);
  std::unordered_map<std::uint64_t, Seat*> by_session;
  for (const auto& [route, seat] : seats_) by_session[seat->id] = seat.get();
  whole_ = true;
  by_rank_.resize(sessions.size());
  for (std::size_t rank = 0; rank < sessions.size(); ++rank) {
    Seat& seat = *by_session.at(sessions[rank]);
    seat.rank = static_cast<int>(rank);
    seat.state = State::in;
    by_rank_[rank] = &seat;
    wire::Envelope envelope;
    *envelope.mutable_welcome() = welcome;
    envelope.mutable_welcome()->set_rank(static_cast<std::uint32_t>(rank));
    seat.session->send(stamp(), envelope, Clock::now());
  }
}

void CoordinatorLoop::take_member(Seat& seat, wire::Envelope& envelope) {
  if (seat.state == State::lost)
    return refuse(seat.route, refusal(wire::Refused::LOST,
                                      "the other processes were told that this one is lost",
                                      "end it: its place may have been taken"));
  // Signs of life and the join itself may still come from before the welcome arrived.
  const bool is_early = envelope.generation() == 0 &&
                        (envelope.has_join() || envelope.has_pulse() || envelope.has_echo());
  const bool is_leaving = envelope.has_leave() && seat.state == State::joining;
  bool is_next = false;
  {
    const std::lock_guard lock(mutex_);
    if (envelope.generation() != generation_ && !is_early && !is_leaving) {
      ++counters_.stale;
      return;
    }
    is_next = seat.session->receive(stamp(), envelope, counters_, Clock::now());
  }
  busy_ = busy_ || !seat.session->is_quiet();
  if (is_next) serve(seat, envelope);
}

void CoordinatorLoop::serve(Seat& seat, wire::Envelope& envelope) {
  if (envelope.has_leave()) return leave(seat, envelope.leave().id());
  if (seat.state != State::in) return;
  const int rank = seat.rank;
  busy_ = true;
  if (envelope.has_put())
    board_.put({rank, envelope.put().id()}, envelope.put().key(),
               std::move(*envelope.mutable_put()->mutable_value()));
  else if (envelope.has_get() && envelope.get().cancel())
    board_.cancel({rank, envelope.get().id()}, envelope.get().key());
  else if (envelope.has_get())
    board_.get({rank, envelope.get().id()}, envelope.get().key());
  else if (envelope.has_arrive())
    board_.arrive({rank, envelope.arrive().id()}, envelope.arrive().barrier(), options_.size);
  else if (envelope.has_report())
    report_lost(static_cast<int>(envelope.report().rank()), envelope.report().reason());
}

void CoordinatorLoop::leave(Seat& seat, std::uint64_t request) {
  if (seat.state == State::joining) {
    roster_.withdraw(seat.id);
    seats_.erase(seat.route);
    return;
  }
  wire::Envelope envelope;
  envelope.mutable_answer()->set_id(request);
  seat.session->send(stamp(), envelope, Clock::now());
  seat.state = State::left;
  departed_.push_back(seat.rank);
  busy_ = true;
  board_.close_barriers(fmt::format("rank {} on {} has left", seat.rank, seat.join.host()));
  end_if_empty();
}

void CoordinatorLoop::report_lost(int rank, const std::string& reason) {
  if (rank < 0 || rank >= static_cast<int>(by_rank_.size())) return;
  lose(*by_rank_[static_cast<std::size_t>(rank)], reason);
}

void CoordinatorLoop::lose(Seat& seat, const std::string& reason) {
  if (seat.state == State::joining) {
    roster_.withdraw(seat.id);
    const std::string route = seat.route;
    seats_.erase(route);
    return;
  }
  if (seat.state != State::in) return;
  seat.state = State::lost;
  seat.probe.reset();
  refuse(seat.route,
         refusal(wire::Refused::LOST,
                 fmt::format("the other processes were told that this one is lost: {}", reason),
                 "end it: its place may have been taken"));
  tell_gone({seat.rank}, false, reason);
  board_.close(fmt::format("rank {} on {} (process {}) is lost: {}", seat.rank, seat.join.host(),
                           seat.join.pid(), reason));
  end_if_empty();
}

void CoordinatorLoop::tell_gone(const std::vector<int>& ranks, bool left,
                                const std::string& reason) {
  const auto now = Clock::now();
  for (Seat* other : by_rank_) {
    if (other->state != State::in) continue;
    wire::Envelope envelope;
    for (const int rank : ranks)
      envelope.mutable_gone()->add_rank(static_cast<std::uint32_t>(rank));
    envelope.mutable_gone()->set_left(left);
    envelope.mutable_gone()->set_reason(reason);
    other->session->send(stamp(), envelope, now);
  }
  busy_ = true;
}

void CoordinatorLoop::end_if_empty() {
  if (std::any_of(by_rank_.begin(), by_rank_.end(), [](Seat* seat) { return seat->is_here(); }))
    return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ended_changed_.notify_all();
}

void CoordinatorLoop::look_at_probes(Clock::time_point now) {
  if (!probing_) return;
  probing_ = false;
  std::vector<Seat*> ended;
  for (const auto& [route, seat] : seats_) {
    if (!seat->probe) continue;
    const Probe::Finding finding =
        seat->is_here() ? seat->probe->look(now) : Probe::Finding::unclear;
    if (finding == Probe::Finding::pending)
      probing_ = true;
    else
      seat->probe.reset();
    if (finding == Probe::Finding::ended) ended.push_back(seat.get());
  }
  for (Seat* seat : ended) lose(*seat, "its process ended");
}

void CoordinatorLoop::look_at_clock(Clock::time_point now) {
  // A coordinator that was stopped itself must not take that for the silence of the others.
  if (now - last_round_ > options_.timeout / 4) forgive_until_ = now + options_.timeout;
  last_round_ = now;
  if (!whole_ && !seats_.empty() && now - first_join_ > options_.timeout) {
    const wire::Refused refused = roster_.timeout(fmt::format("{}", options_.timeout));
    for (const auto& [route, seat] : seats_) refuse(route, refused);
    begin_generation();
  }
  const Clock::duration step = busy_ ? Clock::duration(Session::tick) : heartbeat_;
  if (now - last_maintenance_ >= step) maintain(now);
}

void CoordinatorLoop::maintain(Clock::time_point now) {
  last_maintenance_ = now;
  if (!departed_.empty()) tell_gone(std::exchange(departed_, {}), true, {});
  const bool beat = now - last_heartbeat_ >= heartbeat_;
  if (beat) last_heartbeat_ = now;
  busy_ = false;
  std::vector<Seat*> silent;
  for (const auto& [route, seat] : seats_) {
    if (seat->state == State::lost) continue;
    seat->session->maintain(stamp(), now);
    if (!seat->is_here()) continue;
    if (beat) seat->session->pulse(stamp(), now);
    busy_ = busy_ || !seat->session->is_quiet();
    if (now - seat->session->last_heard() > options_.timeout && now > forgive_until_)
      silent.push_back(seat.get());
  }
  for (Seat* seat : silent) lose(*seat, fmt::format("no sign of life for {}", options_.timeout));
}

}  // namespace troupe::control
