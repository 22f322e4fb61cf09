// How the wall time of an actor is split, with a device whose times are known late.
#include "runtime/flow/time_account.h"

#include <gtest/gtest.h>

namespace troupe::flow {
namespace {

using std::chrono::milliseconds;

constexpr TimeAccount::TimePoint at(int ms) { return TimeAccount::TimePoint{milliseconds(ms)}; }
void expect_split(const TimeAccount& account, int compute, int no_input, int no_credit, int other) {
  EXPECT_EQ(account.split().compute, milliseconds(compute));
  EXPECT_EQ(account.split().no_input, milliseconds(no_input));
  EXPECT_EQ(account.split().no_credit, milliseconds(no_credit));
  EXPECT_EQ(account.split().other, milliseconds(other));
}

TEST(TimeAccount, CountsWaitsByTheirReasonWhenTheyAreSettled) {
  TimeAccount account(at(0));
  account.wait_until(at(5), Waiting::input);
  account.compute_until(at(20));
  account.wait_until(at(23), Waiting::credit);
  account.wait_until(at(24), Waiting::other);
  expect_split(account, 15, 0, 0, 0);
  account.settle();
  expect_split(account, 15, 5, 3, 1);
}

TEST(TimeAccount, SettlesAtOnceWhereNoDeviceWorked) {
  TimeAccount account(at(0));
  account.wait_idle_until(at(5), Waiting::input);
  expect_split(account, 0, 5, 0, 0);
  account.wait_until(at(7), Waiting::credit);
  account.wait_idle_until(at(8), Waiting::other);
  expect_split(account, 0, 5, 2, 1);
}

TEST(TimeAccount, CountsThePartOfAWaitInWhichTheDeviceComputedAsComputing) {
  TimeAccount account(at(0));
  account.compute_until(at(1));  // gives the work
  account.wait_until(at(10), Waiting::input);
  account.wait_until(at(20), Waiting::credit);
  account.add({at(3), at(12)});
  expect_split(account, 1 + 9, 2, 0, 0);
  account.settle();
  expect_split(account, 1 + 9, 2, 8, 0);
}

TEST(TimeAccount, CountsNoTimeTwiceWhereHostAndDeviceComputed) {
  TimeAccount account(at(0));
  account.wait_until(at(2), Waiting::input);
  account.compute_until(at(8));
  account.wait_until(at(10), Waiting::input);
  account.add({at(3), at(9)});
  account.settle();
  expect_split(account, 6 + 1, 2 + 1, 0, 0);
}

TEST(TimeAccount, PutsSeveralSpansIntoOneWaitAndOneSpanIntoSeveralWaits) {
  TimeAccount account(at(0));
  account.wait_until(at(10), Waiting::input);
  account.wait_until(at(12), Waiting::other);
  account.wait_until(at(20), Waiting::input);
  account.add({at(1), at(2)});
  account.add({at(5), at(6)});
  account.add({at(9), at(15)});
  account.settle();
  expect_split(account, 1 + 1 + 6, 7 + 5, 0, 0);
}

TEST(TimeAccount, LeavesTimeThatIsSettledAsItIs) {
  TimeAccount account(at(0));
  account.wait_until(at(10), Waiting::credit);
  account.settle();
  account.wait_until(at(20), Waiting::credit);
  account.add({at(5), at(15)});  // seen too early by a clock that is not quite the host's
  account.settle();
  expect_split(account, 5, 0, 15, 0);
}

}  // namespace
}  // namespace troupe::flow
