#pragma once
// Order and exactly-once between two processes over connections that break.

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "runtime/control/counters.h"
#include "runtime/control/detail/wire.h"

namespace troupe::control {

using Clock = std::chrono::steady_clock;

/// Who sends: in every envelope.
struct Stamp {
  std::uint64_t run = 0;
  std::uint32_t generation = 0;
  std::uint32_t from = 0;
  std::uint64_t session = 0;
};

/// One process's side of its conversation with one other, without sockets: numbers what must
/// arrive and keeps it until acknowledged; takes what comes in order and drops the rest.
///
/// A connection of ZeroMQ keeps order and loses only when it breaks, and then silently. So nothing
/// is sent again on suspicion: a Pulse follows what was sent on the same connection, and what its
/// Echo does not acknowledge is known to be lost (go-back-N: A. S. Tanenbaum, "Computer Networks",
/// sliding windows; here the window is what the other side's credits allow). Of one thread.
class Session {
 public:
  /// Hands a frame to whatever connection there is; it may get lost.
  using Transmit = std::function<void(const std::string& frame)>;

  explicit Session(Transmit transmit) : transmit_(std::move(transmit)) {}

  /// Numbers, keeps and transmits.
  void send(const Stamp& stamp, wire::Envelope& envelope, Clock::time_point now);

  /// Transmits once: pulse, echo or refusal.
  void send_unnumbered(const Stamp& stamp, wire::Envelope& envelope);

  /// Takes in what another process sent: acknowledgements, pulses (answered) and echoes
  /// (what was lost is sent again). True for a numbered envelope whose turn it is.
  bool receive(const Stamp& stamp, const wire::Envelope& envelope, ControlCounters& counters,
               Clock::time_point now);

  /// Called every `tick`: acknowledges what no message of this side has for half of one, and asks
  /// for what has not been acknowledged for a while.
  void maintain(const Stamp& stamp, Clock::time_point now);
  void pulse(const Stamp& stamp, Clock::time_point now);

  /// Called every `heartbeat`: asks for a sign of life, unless one came in the last half of it.
  void keep_alive(const Stamp& stamp, Clock::time_point now, Clock::duration heartbeat);
  void settle(const Stamp& stamp);  ///< acknowledges what it has not yet

  /// Nothing waits for an acknowledgement, and none is owed: no need of maintain().
  bool is_quiet() const { return kept_.empty() && owed_ == 0; }
  bool is_acknowledged() const { return kept_.empty(); }
  std::size_t kept() const { return kept_.size(); }  ///< how many messages wait for it
  std::uint64_t received() const { return received_; }

  /// How long the oldest message has waited while the other side has not shown any sign of life.
  Clock::duration silence(Clock::time_point now) const;
  Clock::time_point last_heard() const { return last_heard_; }

  static constexpr std::chrono::milliseconds tick{100};
  /// The other side acknowledges within one and a half ticks, or later where it has much to do: to
  /// ask sooner would be to ask for what is on its way, and give it more to do.
  static constexpr std::chrono::milliseconds ask_after = 3 * tick;

 private:
  struct Kept {
    std::string frame;
    Clock::time_point since;
  };

  std::string seal(const Stamp& stamp, wire::Envelope& envelope, std::uint64_t sequence);
  bool acknowledge(std::uint64_t up_to);
  void echo(const Stamp& stamp, std::uint64_t id);
  void take_echo(std::uint64_t id, ControlCounters& counters);

  static constexpr int acknowledge_each = 32;

  Transmit transmit_;
  std::deque<Kept> kept_;
  std::uint64_t sent_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::uint64_t received_ = 0;
  int owed_ = 0;
  Clock::time_point owed_since_{};
  std::uint64_t pulse_id_ = 0;
  std::uint64_t pulse_covers_ = 0;
  bool pulse_open_ = false;
  Clock::time_point pulse_time_{};
  Clock::duration patience_ = tick;
  Clock::time_point last_heard_ = Clock::now();
};

}  // namespace troupe::control
