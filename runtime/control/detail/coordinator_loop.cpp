#include "runtime/control/detail/coordinator_loop.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>

#include "runtime/control/endpoint.h"
#include "runtime/control/interface.h"
#include "runtime/print.h"
#include "runtime/text.h"

namespace troupe::control {

std::uint64_t random_session() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

CoordinatorLoop::CoordinatorLoop(const CoordinatorOptions& options)
    : options_(options),
      messaging_(options.messaging ? options.messaging : new_messaging_context()),
      router_(messaging_->server(zmq::socket_type::router, options.key)),
      events_(*messaging_, router_, ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL),
      run_(run_tag(options.run)),
      own_session_(random_session()),
      clock_(options.timeout),
      roster_(options.run, options.size, options.of_launchers),
      store_([this](KeyValueStore::Ticket to, const std::string& value, const std::string& error) {
        Seat* seat = by_rank_[static_cast<std::size_t>(to.rank)];
        if (seat->state != State::in) return;
        wire::Envelope envelope;
        envelope.mutable_answer()->set_id(to.id);
        envelope.mutable_answer()->set_value(value);
        envelope.mutable_answer()->set_error(error);
        seat->session->send(stamp(), envelope, Clock::now());
      }) {
  if (options.own_rank) {
    wire::Join owner;
    owner.set_rank(static_cast<std::uint32_t>(*options.own_rank + 1));
    owner.set_pid(static_cast<std::uint32_t>(getpid()));
    owner.set_host(host_name());
    owner.set_identity(host_identity());
    roster_.reserve(std::move(owner));
  }
  router_.set(zmq::sockopt::router_mandatory, true);
  router_.set(zmq::sockopt::router_handover, true);
  router_.set(zmq::sockopt::ipv6, options.address.find(':') != std::string::npos);
  const std::string wanted = tcp_endpoint(options.address, options.port);
  try {
    // Port 0 asks the system for a free one.
    undisturbed([&] { router_.bind(wanted); });
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

ControlCounters CoordinatorLoop::counters() const {
  const std::lock_guard lock(mutex_);
  ControlCounters counters = counters_;
  counters.sent = sent_;
  return counters;
}

bool CoordinatorLoop::wait_for_end(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return ended_changed_.wait_for(lock, timeout, [&] { return ended_; });
}

void CoordinatorLoop::run() {
  try {
    serve_until_stopped();
  } catch (const std::exception& error) {
    break_down(error.what());
  }
}

/// Closes the port, so that members notice the end at once.
void CoordinatorLoop::break_down(const std::string& why) {
  print_error("{}: the coordinator at {} failed, so its run ends: {}\n", program_name(), endpoint_,
              why);
  events_.close();
  router_.close();
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ended_changed_.notify_all();
}

void CoordinatorLoop::serve_until_stopped() {
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
  auto until = Clock::now() + clock_.interval();
  for (const Seat* seat : probed_) {
    if (seat->probe->fd() >= 0) items.push_back({nullptr, seat->probe->fd(), ZMQ_POLLOUT, 0});
    until = std::min(until, seat->probe->next_look());
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  const int count = zmq_poll(items.data(), static_cast<int>(items.size()),
                             std::max<long>(static_cast<long>(left.count()), 0));
  if (count < 0 && zmq_errno() != EINTR) throw zmq::error_t();  // a signal only wakes it
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

void CoordinatorLoop::take_events() {
  SocketEvents::Event event;
  while (events_.next(event)) {
    if (event.what != ZMQ_EVENT_DISCONNECTED) {
      // Its first message is encrypted for another key.
      if (event.value == ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC)
        report_refused(
            "a client with a different job key (another `MemberOptions::run`, or another "
            "TROUPE_JOB_KEY)");
      continue;
    }
    const auto found = by_fd_.find(event.value);
    if (found != by_fd_.end() && found->second->is_here())
      follow_up(*found->second);
    else
      broken_.insert(event.value);
  }
}

/// If the descriptor was of another member's connection, that connection has broken; the event may
/// still follow. Or the event came before this frame, and the connection of its sender has broken.
/// (If the descriptor is in use again, following up finds nothing.)
void CoordinatorLoop::track_connection(Seat& seat, int fd) {
  if (seat.fd == fd) return;
  Seat*& now = by_fd_[fd];
  if (now && now->fd == fd) follow_up(*now);
  now = &seat;
  seat.fd = fd;
  if (broken_.erase(fd) != 0) follow_up(seat);
}

/// After a broken connection: a port that refuses belongs to a process that ended.
void CoordinatorLoop::follow_up(Seat& seat) {
  if (!seat.is_here()) return;
  seat.has_broken = true;
  seat.probe = std::make_unique<Probe>(seat.join.address(), static_cast<int>(seat.join.port()));
  probed_.insert(&seat);
}

void CoordinatorLoop::remove(Seat& seat) {
  if (const auto found = by_fd_.find(seat.fd); found != by_fd_.end() && found->second == &seat)
    by_fd_.erase(found);
  probed_.erase(&seat);
  seats_.erase(std::string(seat.route));
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
    send_now(router_, route, zmq::send_flags::sndmore);
    send_now(router_, frame);
  } catch (const zmq::error_t& error) {
    if (error.num() != EHOSTUNREACH) throw;  // no connection now: the session sends it again
  }
  ++sent_;
}

void CoordinatorLoop::refuse(const std::string& route, wire::Refused refused) {
  wire::Envelope envelope;
  *envelope.mutable_refused() = std::move(refused);
  send_once(route, envelope);
}

/// Of a process that was not a member.
void CoordinatorLoop::turn_away(const std::string& route, wire::Refused refused) {
  report_refused(refused.message());
  refuse(route, std::move(refused));
}

void CoordinatorLoop::report_refused(const std::string& reason) const {
  if (options_.on_refused) options_.on_refused(reason);
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
  ++counters_.frames;
  if (!envelope) {
    ++counters_.malformed;
    return;
  }
  if (envelope->version() != wire_version || envelope->run() != run_) {
    ++counters_.foreign;
    lock.unlock();
    if (envelope->version() != wire_version)
      turn_away(route,
                refusal(wire::Refused::VERSION,
                        fmt::format("the process uses version {} of the control messages, the "
                                    "coordinator version {}",
                                    envelope->version(), wire_version),
                        "start the same build of the program everywhere"));
    else if (envelope->has_join())
      turn_away(route, roster_.another_run(envelope->join()));
    return;
  }
  if (seat != seats_.end() && seat->second->id != envelope->session()) {
    ++counters_.foreign;
    return;
  }
  if (seat != seats_.end()) {
    lock.unlock();
    track_connection(*seat->second, fd);
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

void CoordinatorLoop::look_at_probes(Clock::time_point now) {
  std::vector<Seat*> ended;
  std::erase_if(probed_, [&](Seat* seat) {
    const Probe::Finding finding =
        seat->is_here() ? seat->probe->look(now) : Probe::Finding::unclear;
    if (finding == Probe::Finding::pending) return false;
    seat->probe.reset();
    if (finding == Probe::Finding::ended) ended.push_back(seat);
    return true;
  });
  for (Seat* seat : ended) lose(*seat, "its process ended");
}

void CoordinatorLoop::look_at_clock(Clock::time_point now) {
  clock_.begin_round(now);
  if (!whole_ && !seats_.empty() && now - first_join_ > options_.timeout) give_world_up();
  if (clock_.is_maintenance_due(now)) maintain(now);
}

void CoordinatorLoop::maintain(Clock::time_point now) {
  clock_.begin_maintenance(now);
  const bool beat = clock_.take_heartbeat(now);
  // Many members leave at once: announcing each departure would send each of them most others'.
  if (!departed_.empty() &&
      (departed_.size() == departed_before_ || now - departed_since_ >= clock_.heartbeat()))
    announce_gone(std::exchange(departed_, {}), true, {});
  departed_before_ = departed_.size();
  bool busy = !departed_.empty();
  std::vector<Seat*> silent;
  for (const auto& [route, seat] : seats_) {
    if (!seat->is_here()) continue;
    seat->session->maintain(stamp(), now);
    if (beat) seat->session->keep_alive(stamp(), now, clock_.heartbeat());
    busy = busy || !seat->session->is_quiet();
    if (now - seat->session->last_heard() > options_.timeout && clock_.takes_silence_for_loss(now))
      silent.push_back(seat.get());
  }
  clock_.set_busy(busy);
  for (Seat* seat : silent)
    lose(*seat, fmt::format("no heartbeat for {}", in_words(options_.timeout)));
}

}  // namespace troupe::control
