// An actor with memory, as docs/adding-an-actor.md has it, that dies around a commit.
#include <gmock/gmock.h>

#include <any>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "runtime/flow/run.h"

namespace troupe {
namespace {

constexpr std::uint32_t steps = 6;

/// Sends 1, 2, 3, …, one a step.
class Source final : public Actor {
 public:
  Output<int> out{this, "out"};
  bool ready() const override { return next_ < steps && out.has_slot(); }
  ActionLabel act() override {
    const MessageKey key{next_, Purpose::train, 0};
    out.send({.key = key}, static_cast<int>(++next_));
    return {"send", key};
  }

 private:
  std::uint32_t next_ = 0;
};

/// When an incarnation of the tally fails, once in a run.
enum class End : std::uint8_t { never, before_it_hears, after_it_counted };

/// Adds up its messages; emits the sum after each committed step.
class Tally final : public Actor {
 public:
  Tally(End end, std::shared_ptr<bool> ended) : end_(end), ended_(std::move(ended)) {}
  Input<int> in{this, "in"};

  bool ready() const override { return in.ready() && !held_; }
  ActionLabel act() override {
    held_ = in.take();
    const MessageKey key = held_->header.key;
    if (key.step < steps_) {
      conclude();
      return {"tally", key};
    }
    next_ = sum_ + **held_;
    vote(key.step, std::make_shared<const int>(next_));
    return {"tally", key};
  }
  bool votes() const override { return true; }
  void on_commit(const Commit& commit) override {
    if (commit.step == 2) end_if(End::before_it_hears);
    if (commit.step < steps_) return;
    sum_ = next_;
    steps_ = commit.step + 1;
    conclude();
    if (commit.step == 2) end_if(End::after_it_counted);
  }
  void restore(const CommittedState& state, std::uint32_t steps) override {
    if (state) sum_ = *std::static_pointer_cast<const int>(state);
    steps_ = steps;
  }

 private:
  void end_if(End end) {
    if (end == end_ && !std::exchange(*ended_, true)) throw Error(ErrorCode::internal, "an end");
  }
  void conclude() {
    emit(sum_);
    in.release(*held_);
    held_.reset();
  }

  End end_;
  std::shared_ptr<bool> ended_;
  std::optional<Held<int>> held_;
  int sum_ = 0, next_ = 0;
  std::uint32_t steps_ = 0;
};

class CommitInEitherScheduling : public ::testing::TestWithParam<Scheduling> {};
INSTANTIATE_TEST_SUITE_P(Deterministic, CommitInEitherScheduling,
                         ::testing::Values(Scheduling::deterministic));
INSTANTIATE_TEST_SUITE_P(ThreadedActors, CommitInEitherScheduling,
                         ::testing::Values(Scheduling::threads));

TEST_P(CommitInEitherScheduling, CountsOnceForAnActorThatDiesAroundIt) {
  for (const End end : {End::never, End::before_it_hears, End::after_it_counted})
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const auto ended = std::make_shared<bool>(false);
      Graph graph;
      const auto source = graph.add<Source>("source");
      const auto tally = graph.add<Tally>("tally", end, ended);
      graph.connect(source, &Source::out, tally, &Tally::in, {.slots = 2});
      std::vector<int> reported;
      int failures = 0;
      run(graph, {.threads = 2,
                  .steps = {.count = steps},
                  .on_event =
                      [&](const std::any& event) { reported.push_back(std::any_cast<int>(event)); },
                  .on_failure = [&](const FailureReport&) { ++failures; },
                  .scheduling = GetParam(),
                  .seed = seed});
      EXPECT_THAT(reported, ::testing::ElementsAre(1, 3, 6, 10, 15, 21)) << "seed " << seed;
      EXPECT_EQ(failures, end == End::never ? 0 : 1);
    }
}

/// What the incarnations of an actor at work share.
struct AtWork {
  std::atomic<bool> is_acting = false, has_failed = false, overlaps = false;
  std::atomic<int> made = 0;
};

/// Is slow in its first action, and notes whether another incarnation is made meanwhile.
class SlowActor final : public Actor {
 public:
  explicit SlowActor(std::shared_ptr<AtWork> at_work) : at_work_(std::move(at_work)) {
    ++at_work_->made;
    if (at_work_->is_acting) at_work_->overlaps = true;
  }
  Input<int> in{this, "in"};

  ActionLabel act() override {
    const auto held = in.take();
    at_work_->is_acting = true;
    // Long enough for the other actor to fail and to be replaced, if nothing waited.
    while (!at_work_->has_failed) std::this_thread::yield();
    if (at_work_->made < 3) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    at_work_->is_acting = false;
    vote(held.header.key.step, nullptr);
    in.release(held);
    return {"slow", held.header.key};
  }
  bool votes() const override { return true; }

 private:
  std::shared_ptr<AtWork> at_work_;
};

/// Fails once, while the slow one acts. All actors then begin the step again.
class FailingActor final : public Actor {
 public:
  explicit FailingActor(std::shared_ptr<AtWork> at_work) : at_work_(std::move(at_work)) {}
  Input<int> in{this, "in"};

  ActionLabel act() override {
    const auto held = in.take();
    if (!at_work_->has_failed) {
      while (!at_work_->is_acting) std::this_thread::yield();
      at_work_->has_failed = true;
      throw Error(ErrorCode::internal, "an end");
    }
    vote(held.header.key.step, nullptr);
    in.release(held);
    return {"fail", held.header.key};
  }
  bool votes() const override { return true; }
  bool restarts_step() const override { return true; }

 private:
  std::shared_ptr<AtWork> at_work_;
};

TEST(CommitThreadedActors, MakesNoIncarnationWhileItsPredecessorActs) {
  const auto at_work = std::make_shared<AtWork>();
  Graph graph;
  const auto source = graph.add<Source>("source");
  const auto slow = graph.add<SlowActor>("slow", at_work);
  const auto failing = graph.add<FailingActor>("failing", at_work);
  graph.connect(source, &Source::out, slow, &SlowActor::in);
  graph.connect(source, &Source::out, failing, &FailingActor::in);
  run(graph, {.threads = 3, .steps = {.count = 1}, .scheduling = Scheduling::threads});
  EXPECT_TRUE(at_work->has_failed);
  EXPECT_GE(at_work->made, 3);  // prototype, first incarnation, and its replacement
  EXPECT_FALSE(at_work->overlaps);
}

}  // namespace
}  // namespace troupe
