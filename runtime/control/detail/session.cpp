#include "runtime/control/detail/session.h"

#include <algorithm>

namespace troupe::control {

std::string Session::seal(const Stamp& stamp, wire::Envelope& envelope, std::uint64_t sequence) {
  envelope.set_version(wire_version);
  envelope.set_run(stamp.run);
  envelope.set_generation(stamp.generation);
  envelope.set_from(stamp.from);
  envelope.set_session(stamp.session);
  envelope.set_sequence(sequence);
  envelope.set_acknowledged(received_);
  pending_ = 0;
  return encode(envelope);
}

void Session::send(const Stamp& stamp, wire::Envelope& envelope, Clock::time_point now) {
  kept_.push_back({seal(stamp, envelope, sent_ + 1), now});
  ++sent_;  // after all that may throw: the receiver waits for each number
  transmit_(kept_.back().frame);
}

void Session::send_unnumbered(const Stamp& stamp, wire::Envelope& envelope) {
  transmit_(seal(stamp, envelope, 0));
}

bool Session::receive(const Stamp& stamp, const wire::Envelope& envelope, ControlCounters& counters,
                      Clock::time_point now) {
  if (!acknowledge(envelope.acknowledged())) {
    ++counters.malformed;
    return false;
  }
  last_heard_ = now;
  if (envelope.has_pulse()) echo(stamp, envelope.pulse().id());
  if (envelope.has_echo()) take_echo(envelope.echo().id(), counters);
  if (envelope.sequence() == 0) return false;
  if (envelope.sequence() != received_ + 1) {
    ++(envelope.sequence() <= received_ ? counters.duplicates : counters.early);
    return false;
  }
  ++received_;
  ++counters.delivered;
  if (pending_++ == 0) pending_since_ = now;
  if (pending_ >= acknowledge_each) echo(stamp, 0);
  return true;
}

/// False if the other side claims to have what was never sent.
bool Session::acknowledge(std::uint64_t up_to) {
  if (up_to > sent_) return false;
  if (up_to > acknowledged_) patience_ = tick;
  for (; acknowledged_ < up_to; ++acknowledged_) kept_.pop_front();
  return true;
}

void Session::echo(const Stamp& stamp, std::uint64_t id) {
  wire::Envelope answer;
  answer.mutable_echo()->set_id(id);
  send_unnumbered(stamp, answer);
}

void Session::take_echo(std::uint64_t id, ControlCounters& counters) {
  if (!pulse_open_ || id != pulse_id_) return;
  pulse_open_ = false;
  patience_ = tick;
  const std::uint64_t lost = pulse_covers_ > acknowledged_ ? pulse_covers_ - acknowledged_ : 0;
  if (lost == 0) return;
  // Later ones are behind a gap and are not taken either: all again, in order.
  for (const Kept& kept : kept_) transmit_(kept.frame);
  counters.resent += kept_.size();
}

void Session::settle(const Stamp& stamp) {
  if (pending_ > 0) echo(stamp, 0);
}

void Session::maintain(const Stamp& stamp, Clock::time_point now) {
  if (now - pending_since_ >= tick / 2) settle(stamp);
  if (kept_.empty() || now - kept_.front().since < ask_after) return;
  if (pulse_open_ && now - pulse_time_ < patience_) return;
  constexpr Clock::duration longest = std::chrono::milliseconds(500);
  patience_ = pulse_open_ ? std::min(2 * patience_, longest) : Clock::duration(tick);
  pulse(stamp, now);
}

void Session::pulse(const Stamp& stamp, Clock::time_point now) {
  pulse_open_ = true;
  pulse_time_ = now;
  pulse_covers_ = sent_;
  wire::Envelope envelope;
  envelope.mutable_pulse()->set_id(++pulse_id_);
  send_unnumbered(stamp, envelope);
}

void Session::keep_alive(const Stamp& stamp, Clock::time_point now, Clock::duration heartbeat) {
  if (now - last_heard_ > heartbeat / 2) pulse(stamp, now);
}

Clock::duration Session::silence(Clock::time_point now) const {
  if (kept_.empty()) return {};
  return now - std::max(kept_.front().since, last_heard_);
}

}  // namespace troupe::control
