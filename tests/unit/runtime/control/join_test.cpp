// The errors of a world whose processes do not connect.

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "runtime/control/detail/member_loop.h"
#include "runtime/control/interface.h"
#include "runtime/text.h"
#include "stranger.h"
#include "world.h"

namespace troupe {
namespace {

using namespace control_test;
using testing::AllOf;
using testing::HasSubstr;

/// Joins a world that never becomes whole; the error that comes back.
Error refused(const Result<std::unique_ptr<Member>>& joined) {
  if (joined) throw std::runtime_error("joined");
  return joined.error();
}

struct Lobby {
  JobKey key = JobKey::generate();
  std::unique_ptr<Coordinator> coordinator;

  explicit Lobby(int size, milliseconds timeout = patience)
      : coordinator(
            std::move(Coordinator::start(coordinator_options(size, key, timeout)).value())) {}

  MemberOptions member(std::optional<int> rank, int size, const std::string& host = "a",
                       milliseconds timeout = patience) const {
    MemberOptions options = member_options(*coordinator, rank, size, key, timeout);
    options.host = host;
    return options;
  }
};

TEST(ControlJoin, NamesTheMissingRanksAndTheHostsThatCame) {
  // A machine too busy for the other to come within the time that the first one waits gets more.
  std::vector<Error> errors;
  milliseconds time{150};
  do {
    time *= 2;
    errors.clear();
    const Lobby lobby(4, time);
    for (const auto& one : join_all({lobby.member(0, 4, "alpha"), lobby.member(2, 4, "beta")}))
      errors.push_back(refused(one));
  } while (time < patience && !std::ranges::all_of(errors, [](const Error& error) {
             return std::string(error.what()).find("ranks 1, 3 of 4") != std::string::npos;
           }));
  // The first is to tell the user, the others know that somebody does.
  EXPECT_EQ(errors[0].code(), ErrorCode::timed_out);
  EXPECT_EQ(errors[1].code(), ErrorCode::peer_lost);
  const std::string waited = in_words(time);
  for (const Error& error : errors)
    EXPECT_THAT(error.what(), AllOf(HasSubstr("ranks 1, 3 of 4 did not join within " + waited),
                                    HasSubstr("alpha (rank 0)"), HasSubstr("beta (rank 2)")));
}

TEST(ControlJoin, IsGivenUpOnRequest) {
  const Lobby lobby(2);
  std::stop_source stop;
  MemberOptions options = lobby.member(0, 2);
  options.stop = stop.get_token();
  const std::jthread later([&] {
    std::this_thread::sleep_for(milliseconds(20));
    stop.request_stop();
  });
  EXPECT_EQ(refused(Member::join(options)).code(), ErrorCode::refused);
}

TEST(ControlJoin, SaysThatNobodyAnswers) {
  MemberOptions options;
  options.key = JobKey::generate();
  options.run = "lonely";
  options.coordinator = "tcp://127.0.0.1:1";
  options.timeout = milliseconds(100);
  const Error error = refused(Member::join(options));
  EXPECT_EQ(error.code(), ErrorCode::timed_out);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("tcp://127.0.0.1:1"), HasSubstr("lonely")));
}

TEST(ControlJoin, RefusesAnotherRunWithoutNamingItsOwn) {
  const Lobby lobby(1);
  MemberOptions options = lobby.member(0, 1);
  options.run = "elsewhere";
  const Error error = refused(Member::join(options));
  EXPECT_EQ(error.code(), ErrorCode::refused);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("a different run from 'elsewhere'"),
                                  testing::Not(HasSubstr("'test'"))));
  EXPECT_THAT(error.remedy(), HasSubstr("set another `MemberOptions::run`"));
}

TEST(ControlJoin, RefusesASecondProcessOfTheSameRank) {
  const Lobby lobby(2);
  std::stop_source stop;  // for the one that waits for rank 0 in vain
  std::mutex mutex;
  std::vector<Error> errors;
  const auto enter = [&](const char* host) {
    MemberOptions options = lobby.member(1, 2, host);
    options.stop = stop.get_token();
    const Error error = refused(Member::join(options));
    const std::lock_guard lock(mutex);
    errors.push_back(error);
    stop.request_stop();
  };
  { const std::jthread alpha(enter, "alpha"), beta(enter, "beta"); }
  EXPECT_EQ(errors[0].code(), ErrorCode::refused);
  EXPECT_THAT(errors[0].what(), AllOf(HasSubstr("rank 1"), HasSubstr("alpha"), HasSubstr("beta"),
                                      HasSubstr("so does")));
  EXPECT_THAT(errors[1].what(), HasSubstr("stopped before all processes had joined"));
}

TEST(ControlJoin, KeepsTheOwnRankForTheProcessThatHoldsTheCoordinator) {
  const JobKey key = JobKey::generate();
  CoordinatorOptions options = coordinator_options(2, key);
  options.own_rank = 0;
  const auto coordinator = std::move(Coordinator::start(options).value());
  Stranger other(coordinator->endpoint(), key.public_key, key);
  other.say(join_envelope("test", 1, 2, 7));  // rank 0, from a process that is not this one
  const auto answer = other.hear_of([](const wire::Envelope& one) { return one.has_refused(); });
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->refused().reason(), wire::Refused::RANK);
  EXPECT_THAT(answer->refused().message(), HasSubstr("asks for rank 0, but so does"));
  const auto joined =
      join_all({member_options(*coordinator, 0, 2, key), member_options(*coordinator, 1, 2, key)});
  for (const auto& one : joined) EXPECT_TRUE(one) << one.error().what();
}

TEST(ControlJoin, RefusesARankBeyondTheWorld) {
  const Lobby lobby(2);
  const Error error = refused(Member::join(lobby.member(2, 2)));
  EXPECT_EQ(error.code(), ErrorCode::refused);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 2"), HasSubstr("2 ranks is 1")));
}

TEST(ControlJoin, RefusesAWorldOfAnotherSize) {
  const Lobby lobby(2);
  const Error error = refused(Member::join(lobby.member(0, 3)));
  EXPECT_EQ(error.code(), ErrorCode::refused);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("3 processes"), HasSubstr("one of 2")));
}

TEST(ControlJoin, AProcessThatDiesWhileJoiningMakesRoomForItsReplacement) {
  const Lobby lobby(2);
  MemberOptions impatient = lobby.member(0, 2, "a", milliseconds(50));
  impatient.run = "test";
  (void)refused(Member::join(impatient));  // gives up after 100 ms: the coordinator knows it only
  const auto joined = join_all({lobby.member(0, 2), lobby.member(1, 2)});
  for (const auto& one : joined) EXPECT_TRUE(one) << one.error().what();
}

TEST(ControlJoin, TheNextWorldFormsAtTheSamePlace) {
  const Lobby lobby(2);
  for (std::uint32_t generation = 1; generation <= 3; ++generation) {
    const auto joined = join_all({lobby.member(0, 2), lobby.member(1, 2)});
    for (const auto& one : joined) {
      ASSERT_TRUE(one) << one.error().what();
      EXPECT_EQ(one.value()->generation(), generation);
    }
    std::vector<std::jthread> leaving;
    for (const auto& one : joined) leaving.emplace_back([&] { EXPECT_TRUE(one.value()->leave()); });
  }
}

TEST(ControlJoin, ALaterRestartTakesThePlaceOfTheOneBefore) {
  Inbox inbox;
  const Lobby lobby(2);
  const auto before = join_all({lobby.member(0, 2), lobby.member(1, 2)});
  for (const auto& one : before) ASSERT_TRUE(one);
  inbox.listen(*before[0].value());
  std::vector<MemberOptions> options{lobby.member(0, 2), lobby.member(1, 2)};
  for (auto& one : options) one.restart = 1;
  const auto after = join_all(options);
  for (const auto& one : after) {
    ASSERT_TRUE(one) << one.error().what();
    EXPECT_EQ(one.value()->generation(), 2u);
  }
  ASSERT_TRUE(inbox.wait_losses(1));
  EXPECT_EQ(inbox.losses()[0].rank, 0) << "it receives the loss of its own rank";
  const Error late = refused(Member::join(lobby.member(0, 2)));
  EXPECT_EQ(late.code(), ErrorCode::refused);
  EXPECT_THAT(late.what(), HasSubstr("restart 0"));
}

// The coordinator's timeout begins when it hears of the process: later by the time of the
// handshake.
TEST(ControlJoinAttempt, EndsLaterThanACoordinatorThatAnsweredLate) {
  const auto start = control::Clock::now();
  control::JoinAttempt joining(seconds(2), start);
  EXPECT_EQ(joining.end(), start + seconds(2));
  joining.handshake_succeeded();
  EXPECT_EQ(joining.end(), start + seconds(4));
  joining.heard(start + milliseconds(1900));
  EXPECT_EQ(joining.end(), start + milliseconds(5900));
}

// The coordinator's last message may still be unread when its process has ended.
TEST(ControlJoinAttempt, DoesNotEndAtOnceWhenTheConnectionBreaks) {
  const auto start = control::Clock::now();
  control::JoinAttempt joining(seconds(2), start);
  joining.heard(start + milliseconds(1900));
  const auto end_after_break = [&](milliseconds after) {
    joining.handshake_succeeded();
    joining.disconnected(start + after);
    return joining.end() - start;
  };
  EXPECT_EQ(end_after_break(milliseconds(2000)), milliseconds(3900)) << "its time is not up";
  EXPECT_EQ(end_after_break(milliseconds(4000)), milliseconds(4500));
  EXPECT_EQ(end_after_break(milliseconds(9000)), milliseconds(5900)) << "however often it breaks";
}

TEST(ControlJoinAttempt, TakesFailedHandshakesInARowForAWrongKey) {
  control::JoinAttempt joining(seconds(2));
  for (int i = 0; i < 2; ++i) joining.handshake_failed();
  EXPECT_FALSE(joining.has_wrong_key());
  joining.disconnected(control::Clock::now());
  EXPECT_TRUE(joining.has_wrong_key());
  joining.handshake_succeeded();
  EXPECT_FALSE(joining.has_wrong_key());
}

TEST(ControlJoin, TellsThatACoordinatorTookTheConnectionAndSaidNothing) {
  const JobKey key = JobKey::generate();
  MessagingContext messaging;
  zmq::socket_t mute = messaging.server(zmq::socket_type::router, key);
  mute.bind("tcp://127.0.0.1:*");
  MemberOptions options;
  options.key = key;
  options.run = "test";
  options.coordinator = mute.get(zmq::sockopt::last_endpoint);
  options.size = 2;
  options.timeout = milliseconds(100);
  std::string text;
  do {  // a machine too busy to connect within this time gets more
    options.timeout *= 2;
    const Error error = refused(Member::join(options));
    EXPECT_EQ(error.code(), ErrorCode::timed_out);
    text = error.what();
  } while (options.timeout < patience && text.find("accepted") == text.npos);
  EXPECT_THAT(text, AllOf(HasSubstr(options.coordinator + " accepted the connection of process"),
                          HasSubstr("check whether the process of the coordinator")));
}

TEST(ControlInterface, ListensOnTheNamedOneOnly) {
  MemberOptions options;
  options.interface = "lo";
  EXPECT_EQ(address_of_interface("lo"), "127.0.0.1");
  EXPECT_EQ(address_of_interface("127.0.0.1"), "127.0.0.1");
  const Lobby lobby(1);
  EXPECT_THAT(lobby.coordinator->endpoint(), testing::StartsWith("tcp://127.0.0.1:"));
  auto wanted = lobby.member(0, 1);
  wanted.interface = "lo";
  const auto joined = Member::join(wanted);
  ASSERT_TRUE(joined);
  EXPECT_THAT(joined.value()->endpoint(), testing::StartsWith("tcp://127.0.0.1:"));
  // Loopback has more addresses: who listens on all of an interface's, or on all, is heard there.
  for (const std::string& door : {lobby.coordinator->endpoint(), joined.value()->endpoint()}) {
    const int port = parse_endpoint(door)->port;
    const int own = connect_raw(door);
    EXPECT_GE(own, 0);
    close(own);
    EXPECT_EQ(connect_raw(tcp_endpoint("127.0.0.2", port)), -1);
  }
}

TEST(ControlInterface, TakesTheNameOfTheCoordinatorsHost) {
  const Lobby lobby(1);
  auto wanted = lobby.member(0, 1);
  const int port = parse_endpoint(wanted.coordinator)->port;
  wanted.coordinator = tcp_endpoint("localhost", port);
  const auto joined = Member::join(wanted);
  EXPECT_TRUE(joined) << joined.error().what();
}

TEST(ControlInterface, RefusesWhatIsNoPlaceOfACoordinator) {
  const Lobby lobby(1);
  auto wanted = lobby.member(0, 1);
  for (const char* place :
       {"127.0.0.1:1", "tcp://127.0.0.1", "tcp://127.0.0.1:70000", "tcp://:1"}) {
    wanted.coordinator = place;
    const auto joined = Member::join(wanted);
    ASSERT_FALSE(joined) << place;
    EXPECT_THAT(joined.error().what(), HasSubstr(place));
  }
}

TEST(ControlInterface, ListsThoseThatExistWhenTheNamedOneDoesNot) {
  const Lobby lobby(1);
  auto wanted = lobby.member(0, 1);
  wanted.interface = "eth77";
  const auto joined = Member::join(wanted);
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code(), ErrorCode::bad_options);
  EXPECT_THAT(joined.error().what(), AllOf(HasSubstr("eth77"), HasSubstr("lo (127.0.0.1)")));
}

TEST(ControlInterface, SaysThatThePortIsTaken) {
  const Lobby lobby(1);
  auto options = coordinator_options(1, lobby.key);
  options.port = std::stoi(lobby.coordinator->endpoint().substr(sizeof "tcp://127.0.0.1:" - 1));
  const auto second = Coordinator::start(options);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), ErrorCode::io);
  EXPECT_THAT(second.error().what(), HasSubstr(std::to_string(options.port)));
}

}  // namespace
}  // namespace troupe
