#include "runtime/remote/shm_message_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/runtime/transport/local.h"

namespace troupe {
namespace {

using remote::ShmMessageChannel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Two ranks of one process, where a send arrives within its call.
class ShmMessageChannelTest : public ::testing::Test {
 protected:
  std::vector<std::unique_ptr<Communicator>> ends_ = test::make_local_communicators(2);
  std::vector<std::string> heard_, damage_;
  ShmMessageChannel sender_{*ends_[0], 1}, receiver_{*ends_[1], 0};

  void open(ShmMessageChannel& frames) {
    frames.open([this](std::string_view body) { heard_.emplace_back(body); },
                [this](const Error& error) { damage_.push_back(error.message()); });
  }
};

TEST_F(ShmMessageChannelTest, KeepsTheOrderOfShortAndLongMessages) {
  open(receiver_);
  const std::string just_fits(508, 'a'), too_long(509, 'b'), huge(300'000, 'c');
  for (const auto& text : {std::string("x"), huge, just_fits, too_long, std::string(1, '\0')})
    sender_.send(text);
  EXPECT_THAT(heard_, ElementsAre("x", huge, just_fits, too_long, std::string(1, '\0')));
}

TEST_F(ShmMessageChannelTest, WaitsForAReceiverThatOpensLater) {
  for (int i = 0; i < 200; ++i) sender_.send(std::to_string(i));
  EXPECT_THAT(heard_, IsEmpty());
  open(receiver_);
  ASSERT_EQ(heard_.size(), 200u);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(heard_[static_cast<std::size_t>(i)], std::to_string(i));
}

TEST_F(ShmMessageChannelTest, DeliversNothingAfterEitherSideHasClosed) {
  open(receiver_);
  open(sender_);
  sender_.send("last");
  sender_.close();
  sender_.send("too late");
  receiver_.send("too late as well");
  EXPECT_THAT(heard_, ElementsAre("last"));
  EXPECT_THAT(damage_, IsEmpty());
}

TEST_F(ShmMessageChannelTest, LeavesLossesToTheControlPlane) {
  open(receiver_);
  ends_[1]->abort(Error(ErrorCode::peer_lost, "rank 0 is gone"));
  EXPECT_THAT(damage_, IsEmpty());
}

TEST_F(ShmMessageChannelTest, ReportsDamage) {
  open(receiver_);
  ends_[1]->abort(Error(ErrorCode::bad_message, "the ring is damaged"));
  EXPECT_THAT(damage_, ElementsAre(HasSubstr("the ring is damaged")));
}

TEST_F(ShmMessageChannelTest, RefusesALengthWithoutItsBytes) {
  open(receiver_);
  Tensor frame = Tensor::empty(Shape{512}, DType::u8, Device::cpu());
  const std::uint32_t length = 0xFFFF'FFFF;
  std::memcpy(frame.raw(), &length, sizeof length);
  ends_[0]->send(1, std::uint64_t{1} << 62, frame);
  EXPECT_THAT(damage_, ElementsAre(HasSubstr("announces 4294967295 bytes")));
  EXPECT_THAT(heard_, IsEmpty());
}

}  // namespace
}  // namespace troupe
