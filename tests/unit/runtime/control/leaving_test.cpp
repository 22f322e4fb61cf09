// What a coordinator says to a member that leaves, and to the others: a member played by hand.

#include <set>

#include "runtime/control/detail/session.h"
#include "stranger.h"
#include "world.h"

namespace troupe {
namespace {

using namespace control_test;

constexpr std::uint64_t own_session = 7;

/// The last rank of a world whose others are real members.
class Leaver {
 public:
  explicit Leaver(int size) : rank_plus_one_(static_cast<std::uint32_t>(size)) {
    control_.say(join_envelope("test", rank_plus_one_, rank_plus_one_, own_session));
    std::vector<MemberOptions> options;
    for (int rank = 0; rank + 1 < size; ++rank)
      options.push_back(member_options(*coordinator, rank, size, key_));
    for (auto& joined : join_all(options)) members.push_back(std::move(joined.value()));
    welcomed_ = hear_of([](const wire::Envelope& it) { return it.has_welcome(); }).has_value();
  }

  wire::Envelope envelope(std::uint64_t sequence, std::uint64_t acknowledged) const {
    wire::Envelope envelope;
    envelope.set_version(control::wire_version);
    envelope.set_run(control::run_tag("test"));
    envelope.set_generation(1);
    envelope.set_from(rank_plus_one_);
    envelope.set_session(own_session);
    envelope.set_sequence(sequence);
    envelope.set_acknowledged(acknowledged);
    return envelope;
  }

  /// Having got the welcome, the coordinator's first message. Whether the answer, its second, came.
  bool leave() {
    wire::Envelope leave = envelope(2, 1);
    leave.mutable_leave()->set_id(9);
    say(leave);
    return hears_answer();
  }

  bool hears_answer() {
    return hear_of([](const wire::Envelope& it) { return it.has_answer(); }).has_value();
  }

  void say(const wire::Envelope& envelope) { control_.say(envelope); }
  std::optional<std::string> hear(milliseconds time) { return control_.hear(time); }
  template <class Wanted>
  std::optional<wire::Envelope> hear_of(Wanted wanted) {
    return control_.hear_of(wanted);
  }
  bool is_welcome() const { return welcomed_; }

 private:
  std::uint32_t rank_plus_one_;
  JobKey key_ = JobKey::generate();

 public:
  std::unique_ptr<Coordinator> coordinator = std::move(
      Coordinator::start(coordinator_options(static_cast<int>(rank_plus_one_), key_)).value());
  std::vector<std::unique_ptr<Member>> members;

 private:
  Stranger control_{coordinator->endpoint(), key_.public_key, key_};
  bool welcomed_ = false;
};

TEST(ControlLeaving, IsOneMessageAndItsAnswer) {
  Leaver leaver(2);
  ASSERT_TRUE(leaver.is_welcome());
  ASSERT_TRUE(leaver.leave());
  EXPECT_FALSE(leaver.hear(2 * control::Session::ask_after))
      << "whether the answer has arrived is not asked";
}

TEST(ControlLeaving, AnAnswerThatWasLostComesAgainWhenItIsAskedFor) {
  Leaver leaver(2);
  ASSERT_TRUE(leaver.is_welcome());
  ASSERT_TRUE(leaver.leave());
  // As if that had been lost: only the welcome has arrived.
  wire::Envelope pulse = leaver.envelope(0, 1);
  pulse.mutable_pulse()->set_id(1);
  leaver.say(pulse);
  const auto asked = leaver.hear_of([](const wire::Envelope& it) { return it.has_pulse(); });
  ASSERT_TRUE(asked);
  wire::Envelope echo = leaver.envelope(0, 1);
  echo.mutable_echo()->set_id(asked->pulse().id());
  leaver.say(echo);
  EXPECT_TRUE(leaver.hears_answer());
}

TEST(ControlLeaving, AtOnceDoesNotWaitForAMemberThatCannotBeReached) {
  Leaver silent(2);
  ASSERT_TRUE(silent.is_welcome());
  silent.members[0]->send(1, "anybody there?");
  EXPECT_TRUE(silent.members[0]->leave_at_once(patience));
  const auto gone = silent.hear_of([](const wire::Envelope& it) { return it.has_gone(); });
  EXPECT_TRUE(gone && gone->gone().left());
}

TEST(ControlLeaving, TheOthersAreToldOfTheirDepartures) {
  Leaver stays(4);
  ASSERT_TRUE(stays.is_welcome());
  for (auto& member : stays.members) ASSERT_TRUE(member->leave());
  std::set<std::uint32_t> left;
  while (left.size() < 3) {
    const auto gone = stays.hear_of([](const wire::Envelope& it) { return it.has_gone(); });
    ASSERT_TRUE(gone && gone->gone().left());
    left.insert(gone->gone().rank().begin(), gone->gone().rank().end());
  }
  EXPECT_EQ(left, (std::set<std::uint32_t>{0, 1, 2}));
}

}  // namespace
}  // namespace troupe
