// What a run says when it makes no progress. A process supervisor receives the checks that `run`
// sends it at intervals; the test decides which CAF actor gets the thread.
#include <gmock/gmock.h>

#include <algorithm>
#include <caf/scheduler/test_coordinator.hpp>

#include "manual_stream.h"
#include "runtime/flow/process_supervisor.h"
#include "workers.h"

namespace troupe::flow {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Takes each message and releases none.
class Hoarder final : public Actor {
 public:
  Input<int> in{this, "in"};
  bool votes() const override { return true; }
  ActionLabel act() override { return {"hoard", in.take().header.key}; }
};

/// Fails once, and has others restart the step; then ends the run.
class Fragile final : public Actor {
 public:
  explicit Fragile(std::shared_ptr<bool> has_failed) : has_failed_(std::move(has_failed)) {}
  bool ready() const override { return !done_; }
  ActionLabel act() override {
    if (!std::exchange(*has_failed_, true)) throw Error(ErrorCode::actor_failed, "it failed");
    done_ = true;
    finish();
    return {"act", {}};
  }
  bool outlives_steps() const override { return true; }
  bool restarts_step() const override { return true; }

 private:
  std::shared_ptr<bool> has_failed_;
  bool done_ = false;
};

class Progress : public ::testing::Test {
 protected:
  void begin() {
    config_.set("scheduler.policy", caf::atom("testing"));
    system_ = std::make_unique<caf::actor_system>(config_);
    state_.reset(new RunState{
        .graph = graph_,
        .options = options_,
        .placement = Placement(graph_, 0, 1),
        .start = Clock::now(),
        .gauges = std::vector<MailboxGauge>(graph_.actors().size()),
        .directory = Directory(graph_.actors().size()),
        .faults_fired = nullptr,
        .done = [this](const Result<RunReport>& result) { ended_ = static_cast<bool>(result); },
        .sent = std::make_unique<std::atomic<std::uint64_t>[]>(graph_.edges().size()),
        .sends_away = std::vector<bool>(graph_.actors().size(), false),
        .stream_backends = std::vector<const Backend*>(graph_.actors().size())});
    state_->yielder = system_->spawn(yield_actor);
    supervisor_ = system_->spawn(process_supervisor, state_);
  }
  ~Progress() override {
    if (state_) state_->yielder = nullptr;
    supervisor_ = nullptr;
  }

  /// Runs all CAF actors but that of `except`, which keeps its thread.
  void play(std::optional<std::size_t> except = {}) {
    auto& jobs = scheduler().jobs;
    for (;;) {
      const auto job = std::ranges::find_if(jobs, [&](caf::resumable* one) {
        return !except || one != job_of(state_->directory.get(*except));
      });
      if (job == jobs.end()) return;
      std::rotate(jobs.begin(), job, std::next(job));
      scheduler().run_once();
    }
  }
  /// What the supervisor prints at a check.
  std::string check(Activity activity, std::optional<std::size_t> except = {}) {
    ::testing::internal::CaptureStderr();
    caf::anon_send(supervisor_, CheckProgress{activity});
    play(except);
    return ::testing::internal::GetCapturedStderr();
  }

  Graph graph_;
  RunOptions options_;
  std::shared_ptr<RunState> state_;
  caf::actor supervisor_;
  std::optional<bool> ended_;

 private:
  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler());
  }
  static caf::resumable* job_of(const ActorAddress& address) {
    if (!address.actor) return nullptr;  // not made yet
    return dynamic_cast<caf::resumable*>(caf::actor_cast<caf::abstract_actor*>(address.actor));
  }

  caf::actor_system_config config_;
  std::unique_ptr<caf::actor_system> system_;
};

TEST_F(Progress, NamesTheActorThatReleasesNothing) {
  const auto counter = graph_.add<testing::Counter>("counter", 9u);
  const auto adder = graph_.add<testing::Adder>("adder");
  const auto hoarder = graph_.add<Hoarder>("hoarder");
  graph_.connect(counter, &testing::Counter::out, adder, &testing::Adder::in);
  graph_.connect(adder, &testing::Adder::out, hoarder, &Hoarder::in, {.slots = 2});
  options_.steps.count = 1;
  begin();
  play();
  EXPECT_EQ(check(Activity::none), "");
  EXPECT_THAT(check(Activity::none), AllOf(HasSubstr("hoarder has held 2 messages since step 0"),
                                           Not(HasSubstr("adder has held"))));
  EXPECT_EQ(check(Activity::none), "") << "once is enough";
  EXPECT_FALSE(ended_);
  EXPECT_EQ(check(Activity::stuck), "");
  EXPECT_EQ(ended_, false) << "the error follows the warning";
}

TEST_F(Progress, AnActorWhoseDeviceComputesIsBusy) {
  const auto stream = std::make_shared<testing::ManualStream>();
  const auto counter = graph_.add<testing::Counter>("counter", 1u);
  const auto adder = graph_.add<testing::OnStream<testing::Adder>>("adder", stream);
  const auto hoarder = graph_.add<Hoarder>("hoarder");
  graph_.connect(counter, &testing::Counter::out, adder, &testing::Adder::in);
  graph_.connect(adder, &testing::Adder::out, hoarder, &Hoarder::in);
  options_.steps.count = 1;
  begin();
  play();
  EXPECT_TRUE(state_->gauges[1].busy());
  EXPECT_EQ(state_->gauges[1].waiting, 0u);
  EXPECT_FALSE(state_->gauges[1].acting);
  while (stream->pass()) play();
  EXPECT_FALSE(state_->gauges[1].busy());
  caf::anon_send(supervisor_, Deadlocked{});
  play();
}

TEST_F(Progress, NamesTheKilledIncarnationThatDoesNotReturn) {
  graph_.add<Fragile>("fragile", std::make_shared<bool>(false));
  const auto hoarder = graph_.add<Hoarder>("busy");
  graph_.connect(graph_.add<testing::Counter>("counter", 1u), &testing::Counter::out, hoarder,
                 &Hoarder::in);
  options_.steps.count = 1;
  begin();
  constexpr std::size_t busy = 1;
  play(busy);  // from its start on: as if in act()
  EXPECT_EQ(check(Activity::some, busy), "");
  EXPECT_THAT(check(Activity::some, busy),
              HasSubstr("the previous incarnation of busy, which was told to end"));
  EXPECT_EQ(check(Activity::some, busy), "") << "once is enough";
  caf::anon_send(supervisor_, StopRequest{});
  play();
  caf::anon_send(supervisor_, Deadlocked{});
  play();
  EXPECT_TRUE(ended_);
}

}  // namespace
}  // namespace troupe::flow
