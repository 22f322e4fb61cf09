#pragma once
// A member: a ROUTER that peers connect to, a DEALER to the coordinator and one to each peer that
// had not connected when something was to be sent to it. One lock guards them and all else, so that
// whoever sends does so on its own thread. The member's thread sleeps, reads and runs the
// callbacks, and holds the lock but for the first and the last of these.

#include <algorithm>
#include <atomic>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>
#include <zmq.hpp>

#include "runtime/control/detail/context.h"
#include "runtime/control/detail/descriptors.h"
#include "runtime/control/detail/probe.h"
#include "runtime/control/detail/session.h"
#include "runtime/control/endpoint.h"
#include "runtime/control/member.h"

namespace troupe::control {

/// What a process that joins has seen of its coordinator.
struct Joining {
  Clock::time_point started = Clock::now();
  std::optional<Clock::time_point> first_heard;
  bool greeted = false;                     ///< the handshake of the present connection succeeded
  std::optional<Clock::time_point> broken;  ///< when the last such connection broke

  /// For what was said before a connection broke to be read, or for the next one to be made.
  static constexpr std::chrono::milliseconds moment{500};

  /// When it gives up. A coordinator that is there says itself who is missing when its time is up,
  /// and that begins to count when it hears of this process, however long the handshake took.
  Clock::time_point end(std::chrono::milliseconds timeout) const {
    const auto begun = first_heard.value_or(started);
    if (greeted) return begun + 2 * timeout;
    if (!broken) return begun + timeout;
    return std::clamp(*broken + moment, begun + timeout, begun + 2 * timeout);
  }
};

class MemberLoop {
 public:
  /// Binds and connects; throws Error.
  explicit MemberLoop(const MemberOptions& options);

  /// Until stop(), or until it has left, on the thread that shall run the callbacks. What cannot be
  /// dealt with ends it before that: whoever waits is told.
  void run();

  // Of any thread.
  void stop();
  std::future<Status> joined() { return joined_.get_future(); }
  void give_up();  ///< joining; what has been answered until then counts
  void send(int to, std::string body);
  void open(Member::OnMessage on_message, Member::OnLost on_lost);
  /// Sends a request and returns where its answer will be, with its number.
  std::pair<std::uint64_t, std::future<Result<std::string>>> request(wire::Envelope envelope);
  /// Whether the request had not been answered yet.
  bool forget(std::uint64_t id, wire::Envelope last_word);
  bool is_own_thread() const { return thread_ == std::this_thread::get_id(); }
  ControlCounters counters() const;
  void leave_at_once();  ///< with the next leave, whatever has not been acknowledged
  std::string lost_coordinator() const;
  bool is_given_up() const;

  // Constant once joined.
  int rank() const { return rank_; }
  std::uint32_t generation() const { return generation_; }
  const std::vector<PeerInfo>& peers() const { return peers_; }
  const std::string& endpoint() const { return endpoint_; }
  const MemberOptions& options() const { return options_; }

 private:
  /// The conversation with one peer. It goes over one connection, ours or the peer's, whichever was
  /// there when the first message was to be sent; over both if both sent at the same time.
  struct Peer {
    std::optional<zmq::socket_t> socket;  ///< ours
    bool has_come = false;                ///< the peer's is there
    std::unique_ptr<Session> session;
  };
  /// A message's sender and body, or who is lost.
  using News = std::variant<std::pair<int, std::string>, PeerLost>;
  struct Callbacks {
    Member::OnMessage on_message;
    Member::OnLost on_lost;
  };
  /// Where there may be something to read; the connection to a peer goes by its rank.
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
  void note_unread(int source);
  bool is_unread(int source) const;
  void look_for_input(zmq::socket_t& socket, int source);
  void take_unread(std::unique_lock<std::mutex>& lock);
  bool take(int source, std::unique_lock<std::mutex>& lock);
  void hand_over(std::unique_lock<std::mutex>& lock);
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

  void look_at_join(Clock::time_point now);
  void look_for_coordinator();
  Error no_answer(Clock::time_point now) const;
  void look_at_probe(Clock::time_point now);
  void look_at_clock(Clock::time_point now);
  Clock::duration step() const;  ///< between two calls of maintain()
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
  Clock::duration heartbeat_;
  std::atomic<std::thread::id> thread_{};

  mutable std::mutex mutex_;  ///< guards what follows
  bool stopping_ = false;
  bool rung_ = false;
  std::vector<int> unread_;           ///< sources, each once
  std::string coordinator_endpoint_;  ///< as it was told
  HostAndPort coordinator_at_;        ///< its address
  std::optional<zmq::socket_t> coordinator_;
  std::optional<SocketEvents> events_;
  std::unique_ptr<Session> coordinator_session_;
  std::unique_ptr<Probe> probe_;
  bool coordinator_lost_ = false;  ///< or this process, for the coordinator
  std::string lost_coordinator_;
  std::uint64_t coordinator_id_ = 0;

  enum class Phase { joining, in, left, failed };
  Phase phase_ = Phase::joining;
  std::promise<Status> joined_;
  Joining joining_;
  Clock::time_point last_search_{};
  bool given_up_ = false;
  int closed_doors_ = 0;  ///< handshakes that failed in a row

  int rank_ = -1;
  std::uint32_t generation_ = 0;
  std::vector<PeerInfo> peers_;
  std::vector<std::uint64_t> sessions_;
  std::vector<bool> gone_;
  std::unordered_map<int, Peer> conversations_;

  std::optional<Callbacks> opened_;  ///< for the thread to take over
  std::optional<Callbacks> callbacks_;
  std::deque<News> news_;
  std::vector<zmq::message_t> parts_;  ///< read last

  std::uint64_t next_request_ = 0;
  std::unordered_map<std::uint64_t, std::promise<Result<std::string>>> requests_;
  std::optional<std::uint64_t> leave_request_;
  bool leave_sent_ = false;
  bool leaves_at_once_ = false;
  bool busy_ = true;
  Clock::time_point last_round_ = Clock::now();
  Clock::time_point last_heartbeat_ = Clock::now();
  Clock::time_point last_maintenance_{};
  Clock::time_point forgive_until_{};
  ControlCounters counters_;
};

}  // namespace troupe::control
