#include "runtime/flow/run.h"

#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <future>
#include <iterator>
#include <numeric>
#include <thread>

#include "workers.h"

namespace troupe {
namespace {

using testing::Adder;
using testing::Collector;
using testing::Counter;
using ::testing::HasSubstr;

constexpr std::uint32_t count = 200;

Graph chain(const std::shared_ptr<std::vector<int>>& seen, std::uint32_t slots) {
  Graph graph;
  const auto counter = graph.add<Counter>("counter", count);
  const auto adder = graph.add<Adder>("adder");
  const auto collector = graph.add<Collector>("collector", seen, std::size_t{count});
  graph.connect(counter, &Counter::out, adder, &Adder::in, {.slots = slots});
  graph.connect(adder, &Adder::out, collector, &Collector::in, {.slots = slots});
  return graph;
}

std::vector<int> one_to_count() {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 1);
  return numbers;
}

class RunInEitherScheduling : public ::testing::TestWithParam<Scheduling> {
 protected:
  RunOptions options() const {
    RunOptions options;
    options.scheduling = GetParam();
    options.threads = 2;
    options.seed = 7;
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Deterministic, RunInEitherScheduling,
                         ::testing::Values(Scheduling::deterministic));
INSTANTIATE_TEST_SUITE_P(ThreadedActors, RunInEitherScheduling,
                         ::testing::Values(Scheduling::threads));

TEST_P(RunInEitherScheduling, DeliversInOrderWithOneSlotAnEdge) {
  const auto seen = std::make_shared<std::vector<int>>();
  run(chain(seen, 1), options());
  EXPECT_EQ(*seen, one_to_count());
}

/// Appends what comes to a vector of the test's, without a vote.
class Noter final : public Actor {
 public:
  explicit Noter(std::shared_ptr<std::vector<int>> seen) : seen_(std::move(seen)) {}
  Input<int> in{this, "in"};
  ActionLabel act() override {
    const auto held = in.take();
    seen_->push_back(*held);
    in.release(held);
    return {"note", held.header.key};
  }

 private:
  std::shared_ptr<std::vector<int>> seen_;
};

/// Sends so many numbers in the only step, and votes for it.
class SendingVoter final : public Actor {
 public:
  explicit SendingVoter(int numbers) : numbers_(numbers) {}
  Output<int> out{this, "out"};
  bool ready() const override { return !voted_; }
  ActionLabel act() override {
    for (int i = 0; i < numbers_; ++i)
      out.send({.key = {0, Purpose::train, static_cast<std::uint32_t>(i)}}, i);
    vote(0, nullptr);
    voted_ = true;
    return {"send", {}};
  }
  bool votes() const override { return true; }

 private:
  int numbers_;
  bool voted_ = false;
};

TEST_P(RunInEitherScheduling, HandlesAllMessagesOfItsLastStep) {
  for (int repetition = 0; repetition < 20; ++repetition) {
    const auto seen = std::make_shared<std::vector<int>>();
    Graph graph;
    const auto sender = graph.add<SendingVoter>("sender", 8);
    const auto taker = graph.add<Noter>("taker", seen);
    graph.connect(sender, &SendingVoter::out, taker, &Noter::in, {.slots = 8});
    RunOptions one_step = options();
    one_step.steps.count = 1;
    run(graph, one_step);
    EXPECT_THAT(*seen, ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  }
}

/// Always has something to do, and takes no message.
class TakesNothing final : public Actor {
 public:
  Input<int> in{this, "in"};
  bool ready() const override { return in.ready(); }
  ActionLabel act() override { return {"nothing", {}}; }
};

TEST_P(RunInEitherScheduling, EndsThoughAnActorDoesNotTakeItsMessages) {
  Graph graph;
  const auto sender = graph.add<SendingVoter>("sender", 8);
  const auto taker = graph.add<TakesNothing>("taker");
  graph.connect(sender, &SendingVoter::out, taker, &TakesNothing::in, {.slots = 8});
  RunOptions one_step = options();
  one_step.steps.count = 1;
  EXPECT_EQ(run(graph, one_step).steps, 1u);
}

TEST_P(RunInEitherScheduling, NeverHasMoreMessagesWaitingThanSlots) {
  const auto seen = std::make_shared<std::vector<int>>();
  const RunReport report = run(chain(seen, 3), options());
  const std::size_t slots[] = {3, 3 + 3, 3};  // of counter, adder and collector
  ASSERT_EQ(report.actors.size(), std::size(slots));
  for (std::size_t i = 0; i < std::size(slots); ++i) {
    EXPECT_LE(report.actors[i].peak_mailbox, slots[i]) << report.actors[i].name;
    EXPECT_EQ(report.actors[i].mailbox_bound, slots[i]) << report.actors[i].name;
  }
}

TEST_P(RunInEitherScheduling, ReplacesAnActorThatThrowsAndLosesNothing) {
  const auto seen = std::make_shared<std::vector<int>>();
  auto opts = options();
  opts.faults = {{"adder", 0, 17, ""}, {"adder", 0, 100, ""}};
  std::vector<FailureReport> failures;
  opts.on_failure = [&](const FailureReport& failure) { failures.push_back(failure); };
  const RunReport report = run(chain(seen, 3), opts);
  EXPECT_EQ(*seen, one_to_count());
  ASSERT_EQ(failures.size(), 2u);
  EXPECT_EQ(failures[0].actor, "adder");
  EXPECT_THAT(failures[0].cause, HasSubstr("injected fault in adder at step 0, micro-batch 17"));
  EXPECT_EQ(report.actors[1].restarts, 2);
}

TEST_P(RunInEitherScheduling, RepeatsOfARestartedSenderAreDroppedOnce) {
  // The second incarnation of the counter begins at 0 again: no number is seen twice.
  const auto seen = std::make_shared<std::vector<int>>();
  auto opts = options();
  opts.faults = {{"counter", 0, 50, ""}};
  const RunReport report = run(chain(seen, 3), opts);
  EXPECT_EQ(*seen, one_to_count());
  EXPECT_EQ(report.actors[1].dropped, 50u);
}

TEST_P(RunInEitherScheduling, FailsWithTheRootCauseWhenTheBudgetIsSpent) {
  const auto seen = std::make_shared<std::vector<int>>();
  auto opts = options();
  opts.restarts.max = 1;
  opts.faults = {{"adder", 0, 3, ""}, {"adder", 0, 4, ""}};
  try {
    run(chain(seen, 2), opts);
    FAIL() << "the run ended well";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::actor_failed);
    EXPECT_THAT(error.what(),
                HasSubstr("adder failed: injected fault in adder at step 0, micro-batch 3 (add) "
                          "(failure 2, the last one: injected fault in adder at step 0, "
                          "micro-batch 4 (add); "));
  }
}

/// Throws in the first action of each incarnation, with `later` as the code in all but the first.
class FailsAtOnce final : public Actor {
 public:
  FailsAtOnce(std::shared_ptr<int> actions, ErrorCode later)
      : actions_(std::move(actions)), later_(later) {}
  bool outlives_steps() const override { return true; }
  bool ready() const override { return true; }
  ActionLabel act() override {
    throw Error(++*actions_ == 1 ? ErrorCode::internal : later_, "the file is gone", "fetch it");
  }

 private:
  std::shared_ptr<int> actions_;
  ErrorCode later_;
};

TEST_P(RunInEitherScheduling, NamesTheCauseOfAReplacementThatFailsAtOnce) {
  Graph graph;
  graph.add<FailsAtOnce>("reader", std::make_shared<int>(0), ErrorCode::internal);
  auto opts = options();
  opts.restarts.max = 2;
  std::vector<std::string> causes;
  opts.on_failure = [&](const FailureReport& failure) { causes.push_back(failure.cause); };
  try {
    run(graph, opts);
    FAIL() << "the run ended well";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(),
                HasSubstr("reader failed: the file is gone; fetch it (failure 3; "));
  }
  EXPECT_THAT(causes, ::testing::Each("the file is gone; fetch it"));
  EXPECT_EQ(causes.size(), 2u);
}

TEST_P(RunInEitherScheduling, EndsWithALastingErrorThatAReplacementMeetsAtOnce) {
  const auto actions = std::make_shared<int>(0);
  Graph graph;
  graph.add<FailsAtOnce>("reader", actions, ErrorCode::bad_file);
  try {
    run(graph, options());
    FAIL() << "the run ended well";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    EXPECT_EQ(error.message(), "reader: the file is gone");
    EXPECT_EQ(error.remedy(), "fetch it");
  }
  EXPECT_EQ(*actions, 2) << "no further replacement meets the same error";
}

TEST_P(RunInEitherScheduling, FailsWhereAnActorCannotTakeItsStateBack) {
  struct Voter final : Actor {
    bool ready() const override { return !has_voted; }
    ActionLabel act() override {
      has_voted = true;
      vote(open, std::make_shared<int>(7));
      return {"vote", {open, Purpose::train, 0}};
    }
    void on_commit(const Commit& commit) override {
      open = commit.step + 1;
      has_voted = commit.last;
    }
    bool votes() const override { return true; }
    std::uint32_t open = 0;
    bool has_voted = false;
  };
  Graph graph;
  graph.add<Voter>("voter");
  auto opts = options();
  opts.steps.count = 4;
  opts.faults = {{"voter", 2, 0, ""}};
  try {
    run(graph, opts);
    FAIL() << "the run ended well";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("it votes for a state, but has no restore()"));
  }
}

TEST_P(RunInEitherScheduling, SplitsTheWholeWallTime) {
  const auto seen = std::make_shared<std::vector<int>>();
  const RunReport report = run(chain(seen, 2), options());
  for (const ActorReport& actor : report.actors) {
    EXPECT_GT(actor.actions, 0u);
    EXPECT_GT(actor.time.compute.count(), 0);
    EXPECT_LE(actor.time.total(), report.wall);
  }
}

/// The time split of a producer and a consumer; one of them takes `pause` a message.
struct Times {
  TimeSplit producer, consumer;
};
Times times_where_one_is_slow(bool slow_counter, std::chrono::milliseconds pause) {
  struct SlowCounter final : Counter {
    explicit SlowCounter(std::chrono::milliseconds time) : Counter(50), pause(time) {}
    ActionLabel act() override {
      std::this_thread::sleep_for(pause);
      return Counter::act();
    }
    std::chrono::milliseconds pause;
  };
  struct SlowCollector final : Collector {
    SlowCollector(std::shared_ptr<std::vector<int>> seen, std::chrono::milliseconds time)
        : Collector(std::move(seen), 50), pause(time) {}
    ActionLabel act() override {
      std::this_thread::sleep_for(pause);
      return Collector::act();
    }
    std::chrono::milliseconds pause;
  };
  const auto seen = std::make_shared<std::vector<int>>();
  Graph graph;
  if (slow_counter) {
    const auto from = graph.add<SlowCounter>("counter", pause);
    const auto to = graph.add<Collector>("collector", seen, std::size_t{50});
    graph.connect(from, &Counter::out, to, &Collector::in, {.slots = 2});
  } else {
    const auto from = graph.add<Counter>("counter", 50u);
    const auto to = graph.add<SlowCollector>("collector", seen, pause);
    graph.connect(from, &Counter::out, to, &Collector::in, {.slots = 2});
  }
  RunOptions options;
  options.threads = 2;
  const auto actors = run(graph, options).actors;
  return {actors.at(0).time, actors.at(1).time};
}

/// The same with pauses that are doubled until it is `as_expected`: a busy machine stops threads
/// for a while.
template <class F>
Times times_where_one_is_slow(bool slow_counter, F&& as_expected) {
  std::chrono::milliseconds pause{1};
  Times times;
  do {
    pause *= 2;
    times = times_where_one_is_slow(slow_counter, pause);
  } while (!as_expected(times) && pause < std::chrono::milliseconds(128));
  return times;
}

TEST(RunThreadedActors, AProducerOfASlowConsumerWaitsForCredit) {
  const auto waits_for_credit = [](const Times& t) {
    return t.producer.no_credit > t.producer.no_input + t.producer.compute;
  };
  const Times found = times_where_one_is_slow(/*slow_counter=*/false, waits_for_credit);
  EXPECT_TRUE(waits_for_credit(found));
  EXPECT_EQ(found.consumer.no_credit.count(), 0) << "it sends nothing";
}

TEST(RunThreadedActors, AConsumerOfASlowProducerWaitsForInput) {
  const auto waits_for_input = [](const Times& t) {
    return t.consumer.no_input > t.consumer.compute && t.producer.no_credit < t.producer.compute;
  };
  const Times found = times_where_one_is_slow(/*slow_counter=*/true, waits_for_input);
  EXPECT_TRUE(waits_for_input(found));
  EXPECT_EQ(found.consumer.no_credit.count(), 0);
}

TEST_P(RunInEitherScheduling, FailsWithWhatACallbackOfTheUserThrows) {
  Graph graph;
  graph.add<testing::Teller>("teller");
  auto opts = options();
  opts.on_event = [](const std::any& event) { std::any_cast<std::string>(event); };
  try {
    run(graph, opts);
    FAIL() << "the run ended well";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("bad any_cast"));
  }
}

TEST_P(RunInEitherScheduling, FailsWhenAReplacementCannotBeMade) {
  const auto seen = std::make_shared<std::vector<int>>();
  Graph graph = chain(seen, 2);
  const auto made = std::make_shared<int>(0);
  // Once for the graph, once for the run; the third, a replacement, is one too many.
  struct Fragile final : Actor {
    explicit Fragile(const std::shared_ptr<int>& made) {
      if (++*made > 2) throw Error(ErrorCode::io, "no third incarnation", "free it");
    }
    bool outlives_steps() const override { return true; }  // or the chain ends before it acts
    bool ready() const override { return !done; }
    ActionLabel act() override {
      done = true;
      return {"act", {0, Purpose::train, 1}};
    }
    bool done = false;
  };
  graph.add<Fragile>("fragile", made);
  auto opts = options();
  opts.faults = {{"fragile", 0, 1, ""}};
  try {
    run(graph, opts);
    FAIL() << "the run ended well";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io) << "as of the first incarnation";
    EXPECT_THAT(error.message(), HasSubstr("could not be created: no third incarnation"));
    EXPECT_EQ(error.remedy(), "free it");
  }
}

TEST_P(RunInEitherScheduling, EndsWhenAnActorOnlySaysThatItHasFinished) {
  struct Finisher final : Actor {
    bool outlives_steps() const override { return true; }
    bool ready() const override { return !done; }
    ActionLabel act() override {
      finish();
      done = true;
      return {"finish", {}};
    }
    bool done = false;
  };
  Graph graph;
  graph.add<Finisher>("finisher");
  EXPECT_EQ(run(graph, options()).actors.at(0).actions, 1u);
}

TEST_P(RunInEitherScheduling, FailsWhenAnActorSendsAKeyTwiceOnAnEdge) {
  const auto seen = std::make_shared<std::vector<int>>();
  Graph graph;
  const auto stutterer = graph.add<testing::Stutterer>("stutterer");
  const auto collector = graph.add<Collector>("collector", seen, std::size_t{2});
  graph.connect(stutterer, &testing::Stutterer::out, collector, &Collector::in, {.slots = 4});
  try {
    run(graph, options());
    FAIL() << "the run ended well";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("larger key"));
  }
}

// The last act of "last" ends the run, and its message is what "reader" fails at: the supervisor
// hears of the failure after it has begun to stop, and must neither forget the reader nor replace
// it.
TEST_P(RunInEitherScheduling, FailsWithAnErrorThatComesWhileStopping) {
  struct Last final : Actor {
    Output<int> out{this, "out"};
    bool ready() const override { return !done; }
    ActionLabel act() override {
      done = true;
      out.send({}, 1);
      finish();
      return {"send", {}};
    }
    bool outlives_steps() const override { return true; }
    bool done = false;
  };
  struct Reader final : Actor {
    explicit Reader(ErrorCode given) : code(given) {}
    Input<int> in{this, "in"};
    ActionLabel act() override { throw Error(code, "met at the end"); }
    ErrorCode code;
  };
  // Of an internal error there would be a replacement, but not at the end.
  for (const ErrorCode code : {ErrorCode::bad_file, ErrorCode::diverged, ErrorCode::internal}) {
    Graph graph;
    const auto last = graph.add<Last>("last");
    const auto reader = graph.add<Reader>("reader", code);
    graph.connect(last, &Last::out, reader, &Reader::in);
    auto opts = options();
    for (opts.seed = 0; opts.seed < 8; ++opts.seed) {
      try {
        run(graph, opts);
        FAIL() << "the run ended well";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), code == ErrorCode::internal ? ErrorCode::actor_failed : code);
        EXPECT_THAT(error.what(), HasSubstr("met at the end"));
      }
    }
  }
}

// The sender ends the run before step 1, of which it has sent a message.
TEST(DeterministicRun, EndsWellThoughAnActorFailsInAStepThatIsCutOff) {
  struct Sender final : Actor {
    Output<int> out{this, "out"};
    bool ready() const override { return next < 2; }
    ActionLabel act() override {
      out.send({.key = {next, Purpose::train, 0}}, 1);
      next == 0 ? vote(0, nullptr) : end_before(1);
      ++next;
      return {"send", {}};
    }
    bool votes() const override { return true; }
    std::uint32_t next = 0;
  };
  struct Taker final : Actor {
    Input<int> in{this, "in"};
    ActionLabel act() override {
      const auto held = in.take();
      if (held.header.key.step == 1) throw Error(ErrorCode::internal, "met in step 1");
      in.release(held);
      return {"take", {}};
    }
  };
  for (std::uint64_t seed = 0; seed < 32; ++seed) {
    Graph graph;
    const auto sender = graph.add<Sender>("sender");
    const auto taker = graph.add<Taker>("taker");
    graph.connect(sender, &Sender::out, taker, &Taker::in, {.slots = 2});
    RunOptions options{.scheduling = Scheduling::deterministic, .seed = seed};
    options.steps.count = 3;
    EXPECT_EQ(run(graph, options).steps, 1u) << seed;
  }
}

/// Releases no message. Gives a poster away at the first, if it is to.
class Hoarder final : public Actor {
 public:
  using Poster = std::function<void(Post)>;
  explicit Hoarder(std::promise<Poster>* given = nullptr) : given_(given) {}
  Input<int> in{this, "in"};

  bool votes() const override { return true; }
  ActionLabel act() override {
    const MessageKey key = in.take().header.key;
    if (given_ && key.micro_batch == 0) given_->set_value(poster());
    return {"hoard", key};
  }
  void end() { vote(0, nullptr); }

 private:
  std::promise<Poster>* given_;
};

Graph hoarding(std::promise<Hoarder::Poster>* given = nullptr) {
  Graph graph;
  const auto counter = graph.add<Counter>("counter", 9u);
  const auto hoarder = graph.add<Hoarder>("hoarder", given);
  graph.connect(counter, &Counter::out, hoarder, &Hoarder::in, {.slots = 3});
  return graph;
}

TEST_P(RunInEitherScheduling, NamesWhoHoldsTheMessagesWithoutWhichNothingGoesOn) {
  RunOptions options{.scheduling = GetParam()};
  options.steps.count = 1;
  options.between_checks = std::chrono::milliseconds(500);  // a busy machine is slow to begin
  try {
    run(hoarding(), options);
    FAIL() << "the run ended";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_graph);
    EXPECT_THAT(error.what(),
                HasSubstr("the graph is deadlocked: no actor has anything to do; step "
                          "0 waits for the vote of hoarder; hoarder has held 3 "
                          "messages since step 0"));
  }
}

/// Takes long to be made, and for its only action.
class Slow final : public Actor {
 public:
  Slow() { pause(); }
  bool votes() const override { return true; }
  bool ready() const override { return !done_; }
  ActionLabel act() override {
    pause();
    done_ = true;
    vote(0, nullptr);
    return {"act", {}};
  }

 private:
  static void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(1500)); }
  bool done_ = false;
};

TEST(Run, IsNotDeadlockedWhileAnActorIsMadeOrAtWork) {
  Graph graph;
  graph.add<Slow>("slow");
  RunOptions options;
  options.steps.count = 1;
  options.between_checks = std::chrono::milliseconds(300);
  EXPECT_EQ(run(graph, options).steps, 1u);
}

TEST(Run, IsNotDeadlockedWhileAThreadMayPostWorkToAnActor) {
  std::promise<Hoarder::Poster> given;
  RunOptions options;
  options.steps.count = 1;
  options.between_checks = std::chrono::milliseconds(500);
  const std::jthread later([poster = given.get_future()]() mutable {
    const Hoarder::Poster post = poster.get();
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    post([](Actor& actor) { static_cast<Hoarder&>(actor).end(); });
  });
  EXPECT_EQ(run(hoarding(&given), options).steps, 1u);
}

TEST(DeterministicRun, IsTheSameForTheSameSeed) {
  const auto order_of = [](std::uint64_t seed) {
    const auto seen = std::make_shared<std::vector<int>>();
    RunOptions options;
    options.scheduling = Scheduling::deterministic;
    options.seed = seed;
    options.trace = true;
    RunReport report = run(chain(seen, 4), options);
    std::ranges::sort(report.trace, {}, &TraceEvent::begin);
    std::vector<std::size_t> actors;
    for (const TraceEvent& event : report.trace) actors.push_back(event.actor);
    return actors;
  };
  EXPECT_EQ(order_of(3), order_of(3));
  EXPECT_NE(order_of(3), order_of(4));
}

TEST(Graph, RefusesTwoActorsOfOneName) {
  Graph graph;
  graph.add<Counter>("a", 1u);
  EXPECT_THROW(graph.add<Counter>("a", 1u), Error);
}

TEST(Graph, RefusesAnEdgeWithoutSlots) {
  Graph graph;
  const auto a = graph.add<Counter>("a", 1u);
  const auto b = graph.add<Adder>("b");
  EXPECT_THROW(graph.connect(a, &Counter::out, b, &Adder::in, {.slots = 0}), Error);
}

TEST(Run, RefusesAnEmptyGraph) { EXPECT_THROW(run(Graph{}, {}), Error); }

}  // namespace
}  // namespace troupe
