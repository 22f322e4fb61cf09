#pragma once
// The coordinator's thread: one ROUTER, and the sessions and requests of the members.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>
#include <zmq.hpp>

#include "runtime/control/coordinator.h"
#include "runtime/control/detail/context.h"
#include "runtime/control/detail/key_value_store.h"
#include "runtime/control/detail/loop_clock.h"
#include "runtime/control/detail/probe.h"
#include "runtime/control/detail/roster.h"
#include "runtime/control/detail/session.h"

namespace troupe::control {

class CoordinatorLoop {
 public:
  /// Binds; throws Error{io}.
  explicit CoordinatorLoop(const CoordinatorOptions& options);

  /// Runs until stop(), on the thread that owns the sockets. An error that it cannot handle ends it
  /// earlier: it prints the error, and the members lose their coordinator.
  void run();

  // Of any thread.
  void stop();
  void post(std::function<void()> task);
  const std::string& endpoint() const { return endpoint_; }
  ControlCounters counters() const;
  bool wait_for_end(std::chrono::milliseconds timeout);

  void report_lost(int rank, const std::string& reason);  ///< on its own thread: through post()

 private:
  enum class State { joining, in, left, lost };

  /// What is known of one member; `session` holds its requests and messages to it.
  struct Seat {
    std::string route;
    std::uint64_t id = 0;
    wire::Join join;
    State state = State::joining;
    int rank = -1;
    int fd = -1;              ///< of its connection, as last seen; descriptors are used again
    bool has_broken = false;  ///< its connection has broken, and no newer one was used yet
    std::unique_ptr<Session> session;
    std::unique_ptr<Probe> probe;

    bool is_here() const { return state == State::joining || state == State::in; }
  };
  using Seats = std::unordered_map<std::string, std::unique_ptr<Seat>>;

  Stamp stamp() const;
  void serve_until_stopped();
  void break_down(const std::string& why);
  void transmit(const std::string& route, const std::string& frame);
  void wait();
  void run_tasks();
  void take_events();
  void take_frames();
  void take(const std::string& route, zmq::message_t& frame);
  void refuse(const std::string& route, wire::Refused refused);
  void turn_away(const std::string& route, wire::Refused refused);
  void report_refused(const std::string& reason) const;

  void send_once(const std::string& route, wire::Envelope& envelope);
  void take_lost(const std::string& route, const wire::Envelope& envelope);
  void take_stranger(const std::string& route, const wire::Envelope& envelope, int fd);
  bool make_room(std::uint32_t rank_plus_one);
  void give_world_up();
  void supersede(std::uint32_t restart);
  void take_member(Seat& seat, wire::Envelope& envelope);
  void serve(Seat& seat, wire::Envelope& envelope);
  void serve_arrival(const Seat& seat, const wire::Arrive& arrive);
  void leave(Seat& seat, std::uint64_t request);
  void form_world();
  void begin_generation();
  void lose(Seat& seat, const std::string& reason);
  void announce_gone(const std::vector<int>& ranks, bool left, const std::string& reason);
  void end_if_empty();

  void track_connection(Seat& seat, int fd);
  void follow_up(Seat& seat);
  void remove(Seat& seat);
  void look_at_probes(Clock::time_point now);
  void look_at_clock(Clock::time_point now);
  void maintain(Clock::time_point now);

  CoordinatorOptions options_;
  std::shared_ptr<MessagingContext> messaging_;
  zmq::socket_t router_;
  SocketEvents events_;
  Wakeup wakeup_;
  std::string endpoint_;
  std::uint64_t run_;
  std::uint64_t own_session_;
  LoopClock clock_;

  Roster roster_;
  KeyValueStore store_;
  // The work for one message or event does not depend on the number of members;
  // only clock ticks and announcements to all members iterate over them.
  Seats seats_;
  std::vector<Seat*> by_rank_;
  std::unordered_map<int, Seat*> by_fd_;  ///< whose connection had the descriptor last
  std::unordered_set<int> broken_;        ///< descriptors of broken connections of unknown clients
  std::unordered_set<Seat*> probed_;      ///< whose connection has broken
  int here_ = 0;                          ///< members that have neither left nor been lost
  std::vector<int> departed_;           ///< members that have left; the others are not notified yet
  std::size_t departed_before_ = 0;     ///< size of departed_ at the last tick
  Clock::time_point departed_since_{};  ///< when the first of them left
  bool whole_ = false;
  std::uint32_t restart_ = 0;
  Clock::time_point first_join_{};
  std::atomic<std::uint64_t> sent_{0};

  mutable std::mutex mutex_;  ///< guards what follows
  std::condition_variable ended_changed_;
  std::vector<std::function<void()>> tasks_;
  bool stopping_ = false;
  bool ended_ = false;
  std::uint32_t generation_ = 1;
  ControlCounters counters_;
};

/// A number that no other process draws.
std::uint64_t random_session();

}  // namespace troupe::control
