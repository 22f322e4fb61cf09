#pragma once
// A member: a ROUTER that peers connect to, a DEALER to the coordinator, and a DEALER to each peer
// that had not connected before the first message to it. One lock guards the sockets and all state,
// so senders use the sockets on their own threads. The member's thread sleeps, reads and runs the
// callbacks; it releases the lock while it sleeps and while a callback runs.

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "runtime/control/detail/context.h"
#include "runtime/control/detail/deliveries.h"
#include "runtime/control/detail/descriptors.h"
#include "runtime/control/detail/join_attempt.h"
#include "runtime/control/detail/loop_clock.h"
#include "runtime/control/detail/open_requests.h"
#include "runtime/control/detail/probe.h"
#include "runtime/control/detail/session.h"
#include "runtime/control/endpoint.h"
#include "runtime/control/member.h"

namespace troupe::control {

class MemberLoop {
 public:
  /// Binds and connects; throws Error.
  explicit MemberLoop(const MemberOptions& options);

  /// Runs until stop() or until this process has left, on the thread that runs the callbacks. An
  /// exception ends it earlier; all waits then end with an error.
  void run();

  // Of any thread.
  void stop();
  std::future<Status> joined() { return joined_.get_future(); }
  void give_up();  ///< ends joining, unless the coordinator has answered before
  void send(int to, std::string body);
  void open(Member::OnMessage on_message, Member::OnLost on_lost);
  /// Sends a request; returns its number and its answer.
  std::pair<std::uint64_t, std::future<Result<std::string>>> request(wire::Envelope envelope);
  /// Drops a request and sends `cancellation`, if it has a body. False if it was answered before.
  bool forget(std::uint64_t id, wire::Envelope cancellation);
  bool is_own_thread() const { return thread_ == std::this_thread::get_id(); }
  ControlCounters counters() const;
  void leave_at_once();  ///< the next leave does not wait for acknowledgements
  std::string lost_coordinator() const;
  bool is_given_up() const;

  // Constant once joined.
  int rank() const { return rank_; }
  std::uint32_t generation() const { return generation_; }
  const std::vector<ProcessInfo>& processes() const { return processes_; }
  const std::string& endpoint() const { return endpoint_; }
  const MemberOptions& options() const { return options_; }

 private:
  /// The conversation with one peer. It uses the connection that existed before the first message,
  /// ours or the peer's; both connections exist if both sides sent at the same time.
  struct Peer {
    std::optional<zmq::socket_t> socket;  ///< ours
    bool has_come = false;                ///< the peer has connected
    std::unique_ptr<Session> session;
  };
  /// The sources of input. The number of the socket to a peer is the rank of the peer.
  enum Source { of_wakeup = -4, of_coordinator, of_events, of_peers };

  Stamp stamp() const;
  static std::string route_of(std::uint64_t session);
  static HostAndPort resolved(const std::string& endpoint);
  void connect_coordinator(const std::string& endpoint, const HostAndPort& place);
  void send_join();
  void serve_until_over(std::unique_lock<std::mutex>& lock);
  void break_down(std::unique_lock<std::mutex>& lock, const std::string& why);

  void sleep(std::unique_lock<std::mutex>& lock);
  void wake();
  void stay_busy();
  void mark_unread(int source);
  bool is_unread(int source) const;
  void look_for_input(zmq::socket_t& socket, int source);
  void take_unread(std::unique_lock<std::mutex>& lock);
  bool take(int source, std::unique_lock<std::mutex>& lock);
  void take_events();
  void take_coordinator();
  void take_from_coordinator(wire::Envelope& envelope);
  void take_welcome(const wire::Welcome& welcome);
  void take_gone(const wire::Gone& gone);
  void take_refused(const wire::Refused& refused);
  bool take_peers(zmq::socket_t& socket, std::unique_lock<std::mutex>& lock);
  void take_frame(std::string_view route, std::string_view frame);
  bool fits(const wire::Envelope& envelope);

  Peer& peer(int rank);
  void transmit(int rank, Peer& peer, const std::string& frame);
  void connect(int rank, Peer& peer);
  void drop_peer(int rank);
  void lose_peer(const PeerLost& lost);
  std::string coordinator_host() const;
  void lose_coordinator(const std::string& reason);
  void fail_requests(const Error& error);
  void fail_join(const Error& error);
  Error wrong_key() const;

  void look_at_join(Clock::time_point now);
  void look_for_coordinator();
  void look_at_probe(Clock::time_point now);
  void look_at_clock(Clock::time_point now);
  void maintain(Clock::time_point now);
  void leave_when_quiet();

  MemberOptions options_;
  std::shared_ptr<MessagingContext> messaging_;
  Wakeup wakeup_;
  Descriptors descriptors_;
  std::string address_;
  std::string endpoint_;
  zmq::socket_t router_;
  std::uint64_t run_;
  std::uint64_t own_session_;
  std::atomic<std::thread::id> thread_{};

  mutable std::mutex mutex_;  ///< guards what follows
  bool stopping_ = false;
  bool rung_ = false;
  std::vector<int> unread_;           ///< sources, each once
  std::string coordinator_endpoint_;  ///< as it was given
  HostAndPort coordinator_at_;        ///< its address
  std::optional<zmq::socket_t> coordinator_;
  std::optional<SocketEvents> events_;
  std::unique_ptr<Session> coordinator_session_;
  std::unique_ptr<Probe> probe_;
  bool coordinator_lost_ = false;  ///< or the coordinator has lost this process
  std::string lost_coordinator_;
  std::uint64_t coordinator_id_ = 0;

  enum class Phase { joining, in, left, failed };
  Phase phase_ = Phase::joining;
  std::promise<Status> joined_;
  JoinAttempt joining_;
  bool given_up_ = false;

  int rank_ = -1;
  std::uint32_t generation_ = 0;
  std::vector<ProcessInfo> processes_;
  std::vector<std::uint64_t> sessions_;
  std::vector<bool> gone_;
  std::unordered_map<int, Peer> conversations_;

  Deliveries deliveries_;
  std::vector<zmq::message_t> parts_;  ///< reused by reads

  OpenRequests requests_;
  std::optional<std::uint64_t> leave_request_;
  bool leave_sent_ = false;
  bool leaves_at_once_ = false;
  LoopClock clock_;
  ControlCounters counters_;
};

}  // namespace troupe::control
