#include "runtime/remote/message_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/runtime/transport/local.h"

namespace troupe {
namespace {

using remote::MessageChannel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Two ranks of one process, where a send arrives within its call.
class MessageChannelTest : public ::testing::Test {
 protected:
  std::vector<std::unique_ptr<Communicator>> ends_ = test::make_local_communicators(2);
  std::vector<std::string> heard_, damage_;
  MessageChannel sender_{*ends_[0], 1}, receiver_{*ends_[1], 0};

  const std::shared_ptr<remote::CallGate> gate_ = std::make_shared<remote::CallGate>();

  void open(MessageChannel& frames) {
    frames.open(
        *gate_, [this](std::string_view body) { heard_.emplace_back(body); },
        [this](const Error& error) { damage_.push_back(error.message()); });
  }
};

TEST_F(MessageChannelTest, KeepsTheOrderOfShortAndLongMessages) {
  open(receiver_);
  const std::string just_fits(508, 'a'), too_long(509, 'b'), huge(300'000, 'c');
  for (const auto& text : {std::string("x"), huge, just_fits, too_long, std::string(1, '\0')})
    sender_.send(text);
  EXPECT_THAT(heard_, ElementsAre("x", huge, just_fits, too_long, std::string(1, '\0')));
}

TEST_F(MessageChannelTest, WaitsForAReceiverThatOpensLater) {
  for (int i = 0; i < 200; ++i) sender_.send(std::to_string(i));
  EXPECT_THAT(heard_, IsEmpty());
  open(receiver_);
  ASSERT_EQ(heard_.size(), 200u);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(heard_[static_cast<std::size_t>(i)], std::to_string(i));
}

TEST_F(MessageChannelTest, DeliversNothingAfterItsGateIsClosed) {
  open(receiver_);
  sender_.send("last");
  gate_->close();
  sender_.send("too late");
  EXPECT_THAT(heard_, ElementsAre("last"));
}

TEST_F(MessageChannelTest, TakesNoDamageFromTheEndOfItsPeer) {
  open(receiver_);
  sender_.send("last");
  ends_[0].reset();
  EXPECT_THAT(heard_, ElementsAre("last"));
  EXPECT_THAT(damage_, IsEmpty());
}

TEST_F(MessageChannelTest, LeavesLossesToTheControlPlane) {
  open(receiver_);
  ends_[1]->abort(Error(ErrorCode::peer_lost, "rank 0 is gone"));
  EXPECT_THAT(damage_, IsEmpty());
}

TEST_F(MessageChannelTest, ReportsDamage) {
  open(receiver_);
  ends_[1]->abort(Error(ErrorCode::bad_message, "the ring is damaged"));
  EXPECT_THAT(damage_, ElementsAre(HasSubstr("the ring is damaged")));
}

TEST_F(MessageChannelTest, RefusesALengthWithoutItsBytes) {
  open(receiver_);
  Tensor frame = Tensor::empty(Shape{512}, DType::u8, Device::cpu());
  const std::uint32_t length = 0xFFFF'FFFF;
  std::memcpy(frame.raw(), &length, sizeof length);
  ends_[0]->send(1, std::uint64_t{1} << 62, frame);
  EXPECT_THAT(damage_, ElementsAre(HasSubstr("announced 4294967295 bytes")));
  EXPECT_THAT(heard_, IsEmpty());
}

}  // namespace
}  // namespace troupe
