#include "actors/monitor.h"

#include <fmt/format.h>

namespace troupe {
namespace {

struct Total {
  double loss = 0;
  std::int64_t correct = 0;
};

Total total(const std::vector<std::optional<Score>>& parts) {
  Total total;
  for (const auto& part : parts) {
    total.loss += part->loss_sum;
    total.correct += part->correct;
  }
  return total;
}

}  // namespace

MonitorOptions print_steps(const Timeline& timeline, std::int64_t test_count) {
  return {.timeline = timeline,
          .test_count = test_count,
          .on_step =
              [](const StepSeen& seen) {
                fmt::print("step {:3}  loss {:.4f}  accuracy {:.4f}\n", seen.step, seen.loss,
                           seen.accuracy);
              },
          .on_evaluation =
              [](const EvaluationSeen& seen) {
                fmt::print("test accuracy {:.4f} ({}/{})\n",
                           static_cast<double>(seen.correct) / static_cast<double>(seen.count),
                           seen.correct, seen.count);
              }};
}

Monitor::Monitor(MonitorOptions options)
    : options_(std::move(options)), since_(std::chrono::steady_clock::now()) {}

std::chrono::nanoseconds Monitor::lap() {
  const auto now = std::chrono::steady_clock::now();
  return now - std::exchange(since_, now);
}

ActionLabel Monitor::act() {
  const auto held = score.take();
  const Header& header = held.header;
  Sum& sum = sums_[{header.key.step, header.key.purpose}];
  if (sum.parts.empty()) {
    sum.parts.resize(header.micro_batches);
    sum.missing = header.micro_batches;
  }
  auto& part = sum.parts.at(header.key.micro_batch);
  if (!part) {
    --sum.missing;
    sum.samples += header.samples;
  }
  part = *held;
  score.release(held);
  report_whole_steps();
  return {"M", header.key};
}

void Monitor::on_commit(const Commit& commit) {
  committed_ = commit.step + 1;
  if (commit.last) last_ = commit;
  report_whole_steps();
}

// A row needs its commit and all of its scores; they may come in either order.
void Monitor::report_whole_steps() {
  while (reported_ < committed_) {
    const std::uint32_t step = reported_;
    const auto found = sums_.find({step, Purpose::train});
    if (found == sums_.end() || found->second.missing > 0) return;
    const Total all = total(found->second.parts);
    const auto samples = static_cast<double>(found->second.samples);
    ++reported_;
    if (options_.on_step)
      options_.on_step({reported_, all.loss / samples, static_cast<double>(all.correct) / samples,
                        found->second.samples, lap()});
    sums_.erase(found);
  }
  if (reported_ == 0) return;
  const std::uint32_t step = reported_ - 1;
  const bool stopped = last_ && last_->stop_requested;
  const bool last = last_ && reported_ == committed_;
  const auto evaluation = sums_.find({step, Purpose::evaluate});
  const bool counted = evaluation != sums_.end() && evaluation->second.missing == 0;
  if (counted) {
    report_evaluation(reported_, evaluation->second);
    sums_.erase(evaluation);
  }
  if (last && (stopped || counted || !options_.timeline.evaluates_after(step))) finish();
}

void Monitor::report_evaluation(std::uint32_t step, const Sum& sum) {
  if (sum.samples != options_.test_count)
    throw Error(ErrorCode::internal,
                fmt::format("the evaluation after step {} counted {} samples of {}", step,
                            sum.samples, options_.test_count));
  const Total all = total(sum.parts);
  if (options_.on_evaluation)
    options_.on_evaluation(
        {step, all.loss / static_cast<double>(sum.samples), all.correct, sum.samples, lap()});
}

void Monitor::restore(const CommittedState&, std::uint32_t steps) {
  reported_ = committed_ = steps;
  since_ = std::chrono::steady_clock::now();
}

}  // namespace troupe
