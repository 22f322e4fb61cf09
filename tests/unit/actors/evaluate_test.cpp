// Evaluation outside a run: batches that threads prepare ahead change nothing but the time it
// takes.
#include "actors/evaluate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "ops/models/mlp.h"
#include "ops/nn/state.h"
#include "runtime/error.h"
#include "runtime/random.h"

namespace troupe {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t tests = 24;  // in batches of one sample

/// How many batches were begun and used; both can be waited for.
class Progress {
 public:
  /// A worker, or the evaluation itself, prepares a batch.
  void begin() {
    const std::lock_guard lock(mutex_);
    ++begun_;
    most_ahead_ = std::max(most_ahead_, begun_ - used_);
    changed_.notify_all();
  }
  /// The model computes a batch, as soon as `ahead` others are begun or all are.
  void use(std::int64_t ahead) {
    std::unique_lock lock(mutex_);
    ++used_;
    const auto is_ahead = [&] { return begun_ >= std::min(tests, used_ + ahead); };
    are_ahead_ = changed_.wait_for(lock, 10s, is_ahead) && are_ahead_;
  }
  std::int64_t most_ahead() const { return most_ahead_; }
  bool are_ahead() const { return are_ahead_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t begun_ = 0, used_ = 0, most_ahead_ = 0;
  bool are_ahead_ = true;
};

class Reader final : public SampleReader {
 public:
  Reader(Progress* progress, std::int64_t damaged) : progress_(progress), damaged_(damaged) {}

  std::string_view name() const override { return "uniform"; }
  SampleSpec samples() const override { return {.shape = {3}, .classes = 4}; }
  std::int64_t count(Split) const override { return tests; }
  void read(Split, std::int64_t index, Tensor sample, Tensor target) const override {
    if (progress_ != nullptr) progress_->begin();
    if (index == damaged_)
      throw Error(ErrorCode::bad_file, "sample " + std::to_string(index) + " is damaged",
                  "remove it");
    const auto bits =
        RandomKey{1, 0, static_cast<std::uint32_t>(index), operation_id("x")}.block(0);
    for (std::size_t i = 0; i < 3; ++i) sample.data<float>()[i] = uniform_float(bits[i]);
    target.data<std::int64_t>()[0] = index % 4;
  }

 private:
  Progress* progress_;
  std::int64_t damaged_;
};

class Watch final : public nn::Module {
 public:
  Watch(std::string path, Progress* progress, std::int64_t ahead)
      : Module(std::move(path)), progress_(progress), ahead_(ahead) {}
  Value forward(Tape&, Value x) override {
    if (progress_ != nullptr) progress_->use(ahead_);
    return x;
  }

 private:
  Progress* progress_;
  std::int64_t ahead_;
};

struct Watched {
  static constexpr std::string_view name = "watched";
  Progress* progress;
  std::int64_t ahead;

  OptionFields options() { return {}; }
  Model make(const SampleSpec& samples) const {
    Model model = Mlp{.widths = {5}, .classes = 4}.make(samples);
    model.add<Watch>("watch", progress, ahead);
    return model;
  }
};

Evaluation evaluated(int workers, Progress* progress = nullptr, std::int64_t damaged = -1) {
  const PipelineOptions pipeline{
      .model = Watched{progress, workers},
      .data = {.dataset = std::make_shared<Reader>(progress, damaged), .workers = workers},
      .batch_size = 4,
      .micro_batches = 4};
  StateSpec spec;
  for (const auto& block : model_of(pipeline).blocks) block->declare(spec);
  return evaluate(
      pipeline, TensorSource::of(named_tensors(spec, *initial_state(spec, DType::f32, 1), false)));
}

TEST(Evaluate, GivesTheSameBitsForAnyNumberOfWorkers) {
  const Evaluation expected = evaluated(0);
  EXPECT_EQ(expected.count, tests);
  for (const int workers : {1, 2, 4, 2 * static_cast<int>(tests)}) {
    const Evaluation found = evaluated(workers);
    EXPECT_EQ(found.loss, expected.loss) << workers;
    EXPECT_EQ(found.correct, expected.correct) << workers;
  }
}

TEST(Evaluate, PreparesAsManyBatchesAheadAsItHasWorkers) {
  for (const int workers : {0, 1, 3}) {
    Progress progress;
    evaluated(workers, &progress);
    EXPECT_TRUE(progress.are_ahead()) << workers;
    EXPECT_LE(progress.most_ahead(), workers + 1) << "of that which is computed next";
  }
}

TEST(Evaluate, EndsWithTheErrorOfTheFirstSampleThatCannotBeRead) {
  for (const int workers : {0, 1, 4}) {
    try {
      evaluated(workers, nullptr, 7);
      FAIL() << workers;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_file);
      EXPECT_EQ(error.message(), "sample 7 is damaged");
      EXPECT_EQ(error.remedy(), "remove it");
    }
  }
}

}  // namespace
}  // namespace troupe
