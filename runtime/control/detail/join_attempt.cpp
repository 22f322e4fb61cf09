#include "runtime/control/detail/join_attempt.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/text.h"

namespace troupe::control {

void JoinAttempt::handshake_succeeded() {
  connected_ = true;
  failed_handshakes_ = 0;
}

void JoinAttempt::handshake_failed() {
  connected_ = false;
  ++failed_handshakes_;
}

void JoinAttempt::disconnected(Clock::time_point now) {
  if (connected_)
    broken_ = now;
  else
    ++failed_handshakes_;
  connected_ = false;
}

void JoinAttempt::heard(Clock::time_point now) {
  if (!first_heard_) first_heard_ = now;
}

bool JoinAttempt::take_search(Clock::time_point now) {
  constexpr std::chrono::milliseconds interval{200};
  if (connected_ || now - last_search_ < interval) return false;
  last_search_ = now;
  return true;
}

/// A coordinator names the missing processes itself when its timeout ends. Its timeout begins when
/// it has a message of this process, however long the handshake took.
Clock::time_point JoinAttempt::end() const {
  // To read what was sent before a connection broke, or to connect again.
  constexpr std::chrono::milliseconds grace{500};
  const auto begun = first_heard_.value_or(started_);
  if (connected_) return begun + 2 * timeout_;
  if (!broken_) return begun + timeout_;
  return std::clamp(*broken_ + grace, begun + timeout_, begun + 2 * timeout_);
}

Error JoinAttempt::timed_out(Clock::time_point now, const std::string& run,
                             const std::string& endpoint, const std::string& process) const {
  const std::string waited =
      in_words(std::chrono::duration_cast<std::chrono::milliseconds>(now - started_));
  if (!connected_ && !broken_)
    return {ErrorCode::timed_out,
            fmt::format("no coordinator of run '{}' answered at {} within {} ({})", run, endpoint,
                        waited, process),
            "check host and port, that rank 0 or the launcher is running, and that no firewall "
            "blocks the connection"};
  return {ErrorCode::timed_out,
          fmt::format("the coordinator of run '{}' at {} {} the connection of {} and sent nothing "
                      "more within {}",
                      run, endpoint, connected_ ? "accepted" : "broke", process, waited),
          "check whether the process of the coordinator (rank 0 or the launcher) has ended, is "
          "suspended, or gets too little processor time"};
}

}  // namespace troupe::control
