#include "runtime/control/detail/member_loop.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "runtime/control/detail/coordinator_loop.h"
#include "runtime/control/interface.h"

namespace troupe::control {
namespace {

constexpr int watched_events =
    ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
    ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

HostAndPort place_of(const std::string& endpoint) {
  if (auto place = parse_endpoint(endpoint)) return *place;
  throw Error(ErrorCode::bad_options,
              fmt::format("'{}' is not where a coordinator can be", endpoint),
              "write it as tcp://HOST:PORT");
}

std::string listen_address(const MemberOptions& options) {
  return options.interface.empty() ? address_towards(place_of(options.coordinator).host)
                                   : address_of_interface(options.interface);
}

}  // namespace

MemberLoop::MemberLoop(const MemberOptions& options)
    : options_(options),
      messaging_(options.messaging ? options.messaging : std::make_shared<MessagingContext>()),
      address_(listen_address(options)),
      router_(messaging_->server(zmq::socket_type::router, options.key)),
      run_(run_tag(options.run)),
      own_session_(random_session()),
      heartbeat_(heartbeat_interval(options.timeout)),
      coordinator_session_(std::make_unique<Session>([this](const std::string& frame) {
        ++counters_.sent;
        coordinator_->send(zmq::buffer(frame), zmq::send_flags::dontwait);
        coordinator_unread_ = true;
      })) {
  if (options_.host.empty()) options_.host = host_name();
  router_.set(zmq::sockopt::router_handover, true);
  const bool is_ipv6 = address_.find(':') != std::string::npos;
  router_.set(zmq::sockopt::ipv6, is_ipv6);
  router_.bind(is_ipv6 ? fmt::format("tcp://[{}]:*", address_)
                       : fmt::format("tcp://{}:*", address_));
  endpoint_ = router_.get(zmq::sockopt::last_endpoint);
  connect_coordinator(options_.coordinator);
}

Stamp MemberLoop::stamp() const {
  return {run_, generation_, static_cast<std::uint32_t>(rank_ + 1), own_session_};
}

/// How a process's connections call themselves. (Ids of ZeroMQ's own begin with a zero byte.)
std::string MemberLoop::route_of(std::uint64_t session) {
  std::string route = "m";
  route.append(reinterpret_cast<const char*>(&session), sizeof session);
  return route;
}

void MemberLoop::connect_coordinator(const std::string& endpoint) {
  events_.reset();
  coordinator_.reset();
  coordinator_ = messaging_->client(zmq::socket_type::dealer, options_.key);
  coordinator_->set(zmq::sockopt::routing_id, route_of(own_session_));
  coordinator_at_ = place_of(endpoint);
  coordinator_at_.host = addresses_of_host(coordinator_at_.host).at(0);
  coordinator_->set(zmq::sockopt::ipv6, coordinator_at_.host.find(':') != std::string::npos);
  events_.emplace(messaging_->zmq(), *coordinator_, watched_events);
  coordinator_->connect(tcp_endpoint(coordinator_at_.host, coordinator_at_.port));
  coordinator_endpoint_ = endpoint;
  coordinator_unread_ = events_unread_ = true;
}

void MemberLoop::send_join() {
  wire::Envelope envelope;
  wire::Join& join = *envelope.mutable_join();
  join.set_run(options_.run);
  join.set_rank(options_.rank ? static_cast<std::uint32_t>(*options_.rank + 1) : 0);
  join.set_size(static_cast<std::uint32_t>(options_.size));
  join.set_local_rank(static_cast<std::uint32_t>(options_.local_rank));
  join.set_restart(static_cast<std::uint32_t>(options_.restart));
  join.set_timeout_ms(static_cast<std::uint32_t>(options_.timeout.count()));
  join.set_host(options_.host);
  join.set_address(address_);
  join.set_port(static_cast<std::uint32_t>(parse_endpoint(endpoint_)->port));
  join.set_pid(static_cast<std::uint32_t>(getpid()));
  join.set_identity(host_identity());
  coordinator_session_->send(stamp(), envelope, Clock::now());
}

void MemberLoop::run() {
  thread_ = std::this_thread::get_id();
  send_join();
  for (;;) {
    wait();
    {
      const std::lock_guard lock(mutex_);
      published_ = counters_;
      if (stopping_) break;
    }
    run_tasks();
    take_events();
    take_coordinator();
    if (phase_ != Phase::joining) take_peers();
    const auto now = Clock::now();
    look_at_join(now);
    look_at_probe(now);
    look_at_clock(now);
    leave_when_quiet();
    if (phase_ == Phase::left || phase_ == Phase::failed) break;
  }
  maintain(Clock::now());  // the last acknowledgements
  fail_requests(Error(ErrorCode::peer_lost, "this process has left the world"));
}

/// Sleeps on the descriptors themselves: zmq::poll asks every socket twice, which a round trip
/// would feel.
void MemberLoop::wait() {
  std::array<pollfd, 5> items{{{wakeup_.fd(), POLLIN, 0},
                               {coordinator_->get(zmq::sockopt::fd), POLLIN, 0},
                               {events_->socket().get(zmq::sockopt::fd), POLLIN, 0},
                               {router_.get(zmq::sockopt::fd), POLLIN, 0},
                               {probe_ ? probe_->fd() : -1, POLLOUT, 0}}};
  // Peers may know of the world before this process does: what they send waits for the welcome.
  const bool reads_peers = phase_ != Phase::joining;
  if (!reads_peers) items[3].fd = -1;
  auto until = last_maintenance_ + (busy_ ? Clock::duration(Session::tick) : heartbeat_);
  if (probe_) until = std::min(until, probe_->next_look());
  const bool unread = coordinator_unread_ || events_unread_ || (router_unread_ && reads_peers);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  const int time = unread ? 0 : static_cast<int>(std::max<std::int64_t>(left.count(), 0));
  if (::poll(items.data(), items.size(), time) <= 0) return;
  coordinator_unread_ = coordinator_unread_ || items[1].revents != 0;
  events_unread_ = events_unread_ || items[2].revents != 0;
  router_unread_ = router_unread_ || items[3].revents != 0;
}

void MemberLoop::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    rung_ = true;
  }
  wakeup_.ring();
}

void MemberLoop::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wakeup_.ring();
}

void MemberLoop::give_up() {
  post([this] { given_up_ = true; });
}

void MemberLoop::run_tasks() {
  std::vector<std::pair<int, std::string>> outgoing;
  std::vector<Task> tasks;
  {
    const std::lock_guard lock(mutex_);
    if (!rung_) return;
    rung_ = false;
    outgoing.swap(outgoing_);
    tasks.swap(tasks_);
    wakeup_.quiet();
  }
  for (auto& [to, body] : outgoing) send_now(to, std::move(body));
  for (const Task& task : tasks) task();
}

void MemberLoop::send(int to, std::string body) {
  // From a callback: at once, behind what other threads have sent.
  if (is_own_thread()) {
    run_tasks();
    return send_now(to, std::move(body));
  }
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    outgoing_.emplace_back(to, std::move(body));
    is_first = !rung_;
    rung_ = true;
  }
  if (is_first) wakeup_.ring();
}

void MemberLoop::open(Member::OnMessage on_message, Member::OnLost on_lost) {
  post([this, on_message = std::move(on_message), on_lost = std::move(on_lost)]() mutable {
    on_message_ = std::move(on_message);
    on_lost_ = std::move(on_lost);
    for (auto& [from, body] : std::exchange(early_messages_, {}))
      on_message_(from, std::move(body));
    for (const PeerLost& lost : std::exchange(early_losses_, {})) on_lost_(lost);
  });
}

std::pair<std::uint64_t, std::future<Result<std::string>>> MemberLoop::request(
    wire::Envelope envelope) {
  std::promise<Result<std::string>> promise;
  auto future = promise.get_future();
  std::uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = ++next_request_;
  }
  if (envelope.has_put()) envelope.mutable_put()->set_id(id);
  if (envelope.has_get()) envelope.mutable_get()->set_id(id);
  if (envelope.has_arrive()) envelope.mutable_arrive()->set_id(id);
  if (envelope.has_leave()) envelope.mutable_leave()->set_id(id);
  auto shared = std::make_shared<std::promise<Result<std::string>>>(std::move(promise));
  post([this, id, envelope = std::move(envelope), shared]() mutable {
    if (phase_ != Phase::in || coordinator_lost_) {
      shared->set_value(Error(ErrorCode::peer_lost, phase_ == Phase::in
                                                        ? "the coordinator is lost"
                                                        : "this process has left the world"));
      return;
    }
    requests_.emplace(id, std::move(*shared));
    busy_ = true;
    if (envelope.has_leave())
      leave_request_ = id;
    else
      coordinator_session_->send(stamp(), envelope, Clock::now());
  });
  return {id, std::move(future)};
}

void MemberLoop::forget(std::uint64_t id, wire::Envelope last_word) {
  post([this, id, last_word = std::move(last_word)]() mutable {
    if (requests_.erase(id) != 0 && last_word.body_case() != wire::Envelope::BODY_NOT_SET)
      coordinator_session_->send(stamp(), last_word, Clock::now());
  });
}

ControlCounters MemberLoop::counters() const {
  const std::lock_guard lock(mutex_);
  return published_;
}

}  // namespace troupe::control
