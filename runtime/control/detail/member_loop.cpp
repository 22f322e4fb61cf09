#include "runtime/control/detail/member_loop.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

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
              fmt::format("'{}' is not the endpoint of a coordinator", endpoint),
              "write it as tcp://HOST:PORT");
}

std::string listen_address(const MemberOptions& options) {
  return options.interface.empty() ? address_towards(place_of(options.coordinator).host)
                                   : address_of_interface(options.interface);
}

}  // namespace

MemberLoop::MemberLoop(const MemberOptions& options)
    : options_(options),
      messaging_(options.messaging ? options.messaging : new_messaging_context()),
      address_(listen_address(options)),
      router_(messaging_->server(zmq::socket_type::router, options.key)),
      run_(run_tag(options.run)),
      own_session_(random_session()),
      coordinator_session_(std::make_unique<Session>([this](const std::string& frame) {
        ++counters_.sent;
        send_now(*coordinator_, frame);
        look_for_input(*coordinator_, of_coordinator);
      })),
      joining_(options.timeout),
      clock_(options.timeout) {
  if (options_.host.empty()) options_.host = host_name();
  router_.set(zmq::sockopt::router_handover, true);
  const bool is_ipv6 = address_.find(':') != std::string::npos;
  router_.set(zmq::sockopt::ipv6, is_ipv6);
  const auto any =
      is_ipv6 ? fmt::format("tcp://[{}]:*", address_) : fmt::format("tcp://{}:*", address_);
  undisturbed([&] { router_.bind(any); });
  endpoint_ = router_.get(zmq::sockopt::last_endpoint);
  descriptors_.add(wakeup_.fd(), of_wakeup);
  connect_coordinator(options_.coordinator, resolved(options_.coordinator));
}

Stamp MemberLoop::stamp() const {
  return {run_, generation_, static_cast<std::uint32_t>(rank_ + 1), own_session_};
}

/// The routing id of a process's connections. (Ids that ZeroMQ makes begin with a zero byte.)
std::string MemberLoop::route_of(std::uint64_t session) {
  std::string route = "m";
  route.append(reinterpret_cast<const char*>(&session), sizeof session);
  return route;
}

/// With the host's address in place of its name.
HostAndPort MemberLoop::resolved(const std::string& endpoint) {
  HostAndPort place = place_of(endpoint);
  place.host = addresses_of_host(place.host).at(0);
  return place;
}

void MemberLoop::connect_coordinator(const std::string& endpoint, const HostAndPort& place) {
  if (coordinator_) {
    descriptors_.remove(coordinator_->get(zmq::sockopt::fd));
    descriptors_.remove(events_->socket().get(zmq::sockopt::fd));
  }
  events_.reset();
  coordinator_.reset();
  coordinator_ = messaging_->client(zmq::socket_type::dealer, options_.key);
  coordinator_->set(zmq::sockopt::routing_id, route_of(own_session_));
  coordinator_at_ = place;
  coordinator_->set(zmq::sockopt::ipv6, coordinator_at_.host.find(':') != std::string::npos);
  events_.emplace(*messaging_, *coordinator_, watched_events);
  const std::string at = tcp_endpoint(coordinator_at_.host, coordinator_at_.port);
  undisturbed([&] { coordinator_->connect(at); });
  coordinator_endpoint_ = endpoint;
  descriptors_.add(coordinator_->get(zmq::sockopt::fd), of_coordinator);
  descriptors_.add(events_->socket().get(zmq::sockopt::fd), of_events);
  // connect() may have consumed what the descriptors announced.
  mark_unread(of_coordinator);
  mark_unread(of_events);
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
  std::unique_lock lock(mutex_);
  thread_ = std::this_thread::get_id();
  try {
    serve_until_over(lock);
  } catch (const std::exception& error) {
    if (!lock.owns_lock()) lock.lock();
    break_down(lock, error.what());
  }
  fail_requests(Error(ErrorCode::peer_lost, "this process has left the world"));
}

/// Closes the port, so that the others notice the loss at once.
void MemberLoop::break_down(std::unique_lock<std::mutex>& lock, const std::string& why) {
  fail_join(Error(ErrorCode::internal, fmt::format("joining the world failed: {}", why)));
  lose_coordinator(fmt::format("this process can no longer receive from it: {}", why));
  lost_coordinator_.clear();  // the coordinator still runs
  phase_ = Phase::failed;
  conversations_.clear();
  events_.reset();
  coordinator_.reset();
  router_.close();
  // Only losses are still delivered: a callback that has thrown may throw again.
  deliveries_.drop_messages();
  while (deliveries_.pending()) try {
      deliveries_.deliver(lock);
      return;
    } catch (const std::exception&) {  // no callback is left to call
      if (!lock.owns_lock()) lock.lock();
    }
}

void MemberLoop::serve_until_over(std::unique_lock<std::mutex>& lock) {
  send_join();
  while (!stopping_) {
    sleep(lock);
    if (stopping_) break;
    take_unread(lock);
    deliveries_.deliver(lock);
    const auto now = Clock::now();
    look_at_join(now);
    look_at_probe(now);
    look_at_clock(now);
    leave_when_quiet();
    if (phase_ == Phase::left || phase_ == Phase::failed) break;
  }
  for (auto& [rank, peer] : conversations_) peer.session->settle(stamp());
}

void MemberLoop::sleep(std::unique_lock<std::mutex>& lock) {
  auto until = clock_.next_maintenance();
  if (probe_) until = std::min(until, probe_->next_look());
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  const std::chrono::milliseconds none{0};
  const auto time = unread_.empty() ? std::max(left, none) : none;
  const int probe = probe_ ? probe_->fd() : -1;
  lock.unlock();
  const std::vector<int>& ready = descriptors_.wait(time, probe);
  lock.lock();
  for (const int source : ready) {
    if (source != of_wakeup) {
      mark_unread(source);
      continue;
    }
    wakeup_.quiet();
    rung_ = false;
  }
}

/// Wakes the member's thread, unless this is it.
void MemberLoop::wake() {
  if (rung_ || is_own_thread()) return;
  rung_ = true;
  wakeup_.ring();
}

/// Has the member's thread maintain sessions at the next tick.
void MemberLoop::stay_busy() {
  if (clock_.is_busy()) return;
  clock_.set_busy(true);
  wake();
}

void MemberLoop::mark_unread(int source) {
  if (!is_unread(source)) unread_.push_back(source);
}

bool MemberLoop::is_unread(int source) const {
  return std::ranges::find(unread_, source) != unread_.end();
}

/// Sending on a socket may consume what its descriptor announced. The thread that sleeps on the
/// descriptor would then miss it, so this marks the source as unread, and wakes the thread.
void MemberLoop::look_for_input(zmq::socket_t& socket, int source) {
  if (is_unread(source)) return;
  const auto has_input = [&] { return (socket.get(zmq::sockopt::events) & ZMQ_POLLIN) != 0; };
  if (!is_own_thread() && !undisturbed(has_input)) return;
  mark_unread(source);
  wake();
}

/// A source stays marked while it is read, so that senders need not look for input.
void MemberLoop::take_unread(std::unique_lock<std::mutex>& lock) {
  for (std::size_t left = unread_.size(); left > 0; --left) {
    const int source = unread_.front();
    const bool is_read = take(source, lock);
    unread_.erase(unread_.begin());
    if (!is_read) unread_.push_back(source);
  }
}

/// Whether the source is read to its end.
bool MemberLoop::take(int source, std::unique_lock<std::mutex>& lock) {
  if (source == of_peers) return take_peers(router_, lock);
  if (source == of_coordinator) {
    take_coordinator();
  } else if (source == of_events) {
    take_events();
  } else if (const auto peer = conversations_.find(source);
             peer != conversations_.end() && peer->second.socket) {
    return take_peers(*peer->second.socket, lock);
  }
  return true;
}

void MemberLoop::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  wake();
}

void MemberLoop::give_up() {
  const std::lock_guard lock(mutex_);
  given_up_ = true;
  wake();
}

void MemberLoop::open(Member::OnMessage on_message, Member::OnLost on_lost) {
  const std::lock_guard lock(mutex_);
  deliveries_.open(std::move(on_message), std::move(on_lost));
  wake();
}

std::pair<std::uint64_t, std::future<Result<std::string>>> MemberLoop::request(
    wire::Envelope envelope) {
  const std::lock_guard lock(mutex_);
  auto [id, answer] = requests_.add();
  if (phase_ != Phase::in || coordinator_lost_) {
    requests_.answer(
        id, Error(ErrorCode::peer_lost, phase_ == Phase::in ? "the coordinator is lost"
                                                            : "this process has left the world"));
    return {id, std::move(answer)};
  }
  if (envelope.has_put()) envelope.mutable_put()->set_id(id);
  if (envelope.has_get()) envelope.mutable_get()->set_id(id);
  if (envelope.has_arrive()) envelope.mutable_arrive()->set_id(id);
  if (envelope.has_leave()) {
    leave_request_ = id;
    // A pulse makes its receiver acknowledge at once.
    for (auto& [rank, peer] : conversations_)
      if (!peer.session->is_acknowledged()) peer.session->pulse(stamp(), Clock::now());
    leave_when_quiet();
  } else {
    coordinator_session_->send(stamp(), envelope, Clock::now());
  }
  stay_busy();
  return {id, std::move(answer)};
}

bool MemberLoop::forget(std::uint64_t id, wire::Envelope cancellation) {
  const std::lock_guard lock(mutex_);
  if (!requests_.forget(id)) return false;
  if (cancellation.body_case() == wire::Envelope::BODY_NOT_SET) return true;
  coordinator_session_->send(stamp(), cancellation, Clock::now());
  stay_busy();
  return true;
}

ControlCounters MemberLoop::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void MemberLoop::leave_at_once() {
  const std::lock_guard lock(mutex_);
  leaves_at_once_ = true;
}

std::string MemberLoop::lost_coordinator() const {
  const std::lock_guard lock(mutex_);
  return lost_coordinator_;
}

bool MemberLoop::is_given_up() const {
  const std::lock_guard lock(mutex_);
  return coordinator_lost_ && lost_coordinator_.empty();
}

}  // namespace troupe::control
