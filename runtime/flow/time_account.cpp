#include "runtime/flow/time_account.h"

#include <algorithm>
#include <utility>

namespace troupe::flow {

void TimeAccount::wait_until(TimePoint now, Waiting why) {
  open_.push_back({std::exchange(since_, now), now, why});
}

void TimeAccount::add(const DeviceSpan& span) {
  while (!open_.empty() && open_.front().begin < span.end) {
    Wait& wait = open_.front();
    const TimePoint from = std::clamp(span.begin, wait.begin, wait.end);
    const TimePoint to = std::min(span.end, wait.end);
    count(from - wait.begin, wait.why);
    split_.compute += to - from;
    if (to < wait.end) {
      wait.begin = to;
      return;
    }
    open_.pop_front();
  }
}

void TimeAccount::settle() {
  for (const Wait& wait : open_) count(wait.end - wait.begin, wait.why);
  open_.clear();
}

}  // namespace troupe::flow
