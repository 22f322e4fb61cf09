#include "runtime/control/detail/loop_clock.h"

#include <gtest/gtest.h>

namespace troupe::control {
namespace {

using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;

TEST(ControlLoopClock, TakesNoSilenceForALossAfterItWasStoppedItself) {
  LoopClock clock(10s);
  const auto start = Clock::now();
  clock.begin_round(start);
  clock.begin_round(start + 1s);
  EXPECT_TRUE(clock.takes_silence_for_loss(start + 1s));
  clock.begin_round(start + 20s);
  EXPECT_FALSE(clock.takes_silence_for_loss(start + 29s));
  EXPECT_TRUE(clock.takes_silence_for_loss(start + 31s));
}

TEST(ControlLoopClock, MaintainsBusySessionsEachTickAndOthersEachHeartbeat) {
  LoopClock clock(10s);
  const auto start = Clock::now();
  clock.begin_maintenance(start);
  clock.set_busy(true);
  EXPECT_EQ(clock.next_maintenance(), start + Session::tick);
  clock.set_busy(false);
  EXPECT_EQ(clock.next_maintenance(), start + 1000ms);
}

}  // namespace
}  // namespace troupe::control
