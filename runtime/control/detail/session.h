#pragma once
// Ordered exactly-once delivery between two processes over connections that may break.

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "runtime/control/counters.h"
#include "runtime/control/detail/wire.h"

namespace troupe::control {

using Clock = std::chrono::steady_clock;

/// The sender, in every envelope.
struct Stamp {
  std::uint64_t run = 0;
  std::uint32_t generation = 0;
  std::uint32_t from = 0;
  std::uint64_t session = 0;
};

/// One side of a connection between two processes, without sockets. It numbers sent messages and
/// keeps them until they are acknowledged. It accepts received messages in order and drops all
/// others.
///
/// A ZeroMQ connection keeps the order and loses messages only when it breaks, without notice. A
/// Pulse follows the messages on the same connection, so messages that its Echo does not
/// acknowledge are lost for certain and are resent (go-back-N: A. S. Tanenbaum, "Computer
/// Networks", sliding windows; the credits of the other side bound the window). Of one thread.
class Session {
 public:
  /// Passes a frame to the current connection, which may lose it.
  using Transmit = std::function<void(const std::string& frame)>;

  explicit Session(Transmit transmit) : transmit_(std::move(transmit)) {}

  /// Numbers, keeps and transmits.
  void send(const Stamp& stamp, wire::Envelope& envelope, Clock::time_point now);

  /// Transmits once: pulse, echo or refusal.
  void send_unnumbered(const Stamp& stamp, wire::Envelope& envelope);

  /// Processes an envelope: acknowledgements, pulses (answered) and echoes (lost messages are sent
  /// again). True for a numbered envelope that is next in order.
  bool receive(const Stamp& stamp, const wire::Envelope& envelope, ControlCounters& counters,
               Clock::time_point now);

  /// Call it every `tick`: sends acknowledgements that have waited for half a tick, and a pulse for
  /// messages that have waited long for theirs.
  void maintain(const Stamp& stamp, Clock::time_point now);
  void pulse(const Stamp& stamp, Clock::time_point now);

  /// Call it every `heartbeat`: requests a heartbeat, unless a message arrived in the last half of
  /// it.
  void keep_alive(const Stamp& stamp, Clock::time_point now, Clock::duration heartbeat);
  void settle(const Stamp& stamp);  ///< sends the pending acknowledgements

  /// No acknowledgement is awaited or pending: maintain() is not needed.
  bool is_quiet() const { return kept_.empty() && pending_ == 0; }
  bool is_acknowledged() const { return kept_.empty(); }

  /// How long the oldest message has waited without any message from the other side.
  Clock::duration silence(Clock::time_point now) const;
  Clock::time_point last_heard() const { return last_heard_; }

  static constexpr std::chrono::milliseconds tick{100};
  /// The other side acknowledges within one and a half ticks, or later under load. Asking sooner
  /// would only add to its load.
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
  int pending_ = 0;
  Clock::time_point pending_since_{};
  std::uint64_t pulse_id_ = 0;
  std::uint64_t pulse_covers_ = 0;
  bool pulse_open_ = false;
  Clock::time_point pulse_time_{};
  Clock::duration patience_ = tick;
  Clock::time_point last_heard_ = Clock::now();
};

}  // namespace troupe::control
