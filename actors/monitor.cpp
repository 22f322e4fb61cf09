#include "actors/monitor.h"

#include <fmt/format.h>

#include <cmath>

#include "runtime/print.h"

namespace troupe {
namespace {

Score::Numbers total(const std::vector<std::optional<Score::Numbers>>& parts) {
  Score::Numbers total;
  for (const auto& part : parts) {
    total.loss_sum += part->loss_sum;
    if (total.correct && part->correct)
      *total.correct += *part->correct;
    else
      total.correct.reset();
  }
  return total;
}

}  // namespace

MonitorOptions print_steps(const Timeline& timeline, std::int64_t test_count) {
  return {.timeline = timeline,
          .test_count = test_count,
          .on_step =
              [](const StepSeen& seen) {
                print_out("step {:3}  loss {:.4f}{}\n", seen.step, seen.loss,
                          seen.accuracy ? fmt::format("  accuracy {:.4f}", *seen.accuracy) : "");
                std::fflush(stdout);
              },
          .on_evaluation =
              [](const Evaluation& seen) {
                if (seen.correct)
                  print_out("test accuracy {:.4f} ({}/{})\n", *seen.accuracy(), *seen.correct,
                            seen.count);
                else
                  print_out("test loss {:.4f} ({} samples)\n", seen.loss, seen.count);
                std::fflush(stdout);
              }};
}

Monitor::Monitor(MonitorOptions options)
    : options_(std::move(options)), scores_(*options_.scores) {}

void Monitor::restore(const CommittedState&, std::uint32_t steps) {
  committed_ = steps;
  may_vote_ = !scores_.sums.empty();
  if (scores_.since != std::chrono::steady_clock::time_point{}) return;  // not the first life
  scores_.reported = steps;
  scores_.evaluations = options_.stopping.before;
  scores_.evaluated = steps > 0 && options_.timeline.evaluates_first ? steps - 1 : steps;
  scores_.since = std::chrono::steady_clock::now();
}

std::chrono::nanoseconds Monitor::lap() {
  const auto now = std::chrono::steady_clock::now();
  return now - std::exchange(scores_.since, now);
}

bool Monitor::has_evaluated() const {
  const bool due = committed_ > 0 && options_.timeline.evaluates_after(committed_ - 1);
  return !due || scores_.evaluated >= committed_;
}

bool Monitor::can_send_factor() const {
  return rate_factor.connected() && rate_factor.has_slot() && !last_ &&
         factor_sent_ != committed_ && has_evaluated();
}

ActionLabel Monitor::send_factor() {
  const EarlyStopping& criteria = options_.stopping;
  const MessageKey key{committed_, Purpose::train, 0};
  rate_factor.send({.key = key}, {plateau_factor(options_.rate, criteria.monitor,
                                                 criteria.min_delta, scores_.evaluations)});
  factor_sent_ = committed_;
  return {"rate", key};
}

ActionLabel Monitor::take_norm() {
  const auto held = gradient_norm.take();
  const MessageKey key = held.header.key;
  if (!is_reported(key)) scores_.norms.insert_or_assign(key.step, *held);
  gradient_norm.release(held);
  report_whole_steps();
  vote_if_whole();
  return {"norm", key};
}

ActionLabel Monitor::act() {
  if (std::exchange(may_vote_, false)) {
    vote_if_whole();
    return {"vote", {committed_, Purpose::train, 0}};
  }
  if (gradient_norm.ready()) return take_norm();
  if (!score.ready()) return send_factor();
  const auto held = score.take();
  const Header header = held.header;
  const auto numbers = held->numbers();
  score.release(held);
  if (is_reported(header.key)) return {"M", header.key};  // the step was replayed
  Scores::Sum& sum = scores_.sums[{header.key.step, header.key.purpose}];
  if (sum.parts.empty()) {
    sum.parts.resize(header.micro_batches);
    sum.missing = header.micro_batches;
  }
  auto& part = sum.parts.at(header.key.micro_batch);
  if (!part) {
    --sum.missing;
    sum.samples += header.samples;
  }
  part = numbers;
  if (header.key.purpose == Purpose::evaluate && options_.on_evaluation_progress)
    options_.on_evaluation_progress({header.key.step + 1, sum.samples, options_.test_count});
  report_whole_steps();
  vote_if_whole();
  return {"M", header.key};
}

bool Monitor::is_reported(const MessageKey& key) const {
  return key.step < (key.purpose == Purpose::train ? scores_.reported : scores_.evaluated);
}

void Monitor::vote_if_whole() {
  if (last_ || voted_ == committed_ || scores_.reported < committed_) return;
  if (!has_evaluated()) return;
  const bool follows_evaluation =
      committed_ > 0 && options_.timeline.evaluates_after(committed_ - 1);
  if (follows_evaluation && stops_early()) {
    voted_ = committed_;
    return end_before(committed_);
  }
  const Scores::Sum* const step = whole(committed_);
  if (!step) return;
  refuse_what_is_not_finite(total(step->parts).loss_sum);
  end_if_scale_cannot_recover();
  voted_ = committed_;
  vote(committed_, nullptr);
}

const Scores::Sum* Monitor::whole(std::uint32_t step) const {
  const auto found = scores_.sums.find({step, Purpose::train});
  if (found == scores_.sums.end() || found->second.missing > 0) return nullptr;
  return options_.loss_scale && !scores_.norms.contains(step) ? nullptr : &found->second;
}

bool Monitor::stops_early() const {
  return !reason_to_stop(options_.stopping, scores_.evaluations).empty();
}

// The step is not committed: the weights before it are the last ones.
void Monitor::refuse_what_is_not_finite(double loss) const {
  if (std::isfinite(loss) || !options_.stop_on_nan) return;
  throw Error(ErrorCode::diverged, fmt::format("the loss of step {} is not finite", committed_ + 1),
              committed_ == 0 ? "look for nan and very large numbers in the data and in the "
                                "weights that the run began with, or lower `lr`"
                              : "lower `lr`, or raise `warmup_steps`; with `stop_on_nan` false the "
                                "run continues");
}

// Gradients that are not finite are usual while a scale adapts, until it is the smallest, and may
// come now and then with a fixed one.
void Monitor::end_if_scale_cannot_recover() const {
  if (!options_.loss_scale || !options_.stop_on_nan) return;
  const auto& [norm, scale] = scores_.norms.at(committed_);
  if (std::isfinite(norm) || !cannot_recover(*options_.loss_scale, scale)) return;
  if (options_.loss_scale->mode == LossScaling::fixed)
    throw Error(ErrorCode::diverged,
                fmt::format("the gradients of {} steps up to step {} are not finite with the "
                            "static loss scale {}",
                            most_overflows_in_a_row, committed_ + 1, scale.scale),
                "lower `init_scale`, or set `LossScaleOptions::mode` to dynamic");
  throw Error(
      ErrorCode::diverged,
      fmt::format("the gradient of step {} is not finite with the smallest loss scale, {}",
                  committed_ + 1, scale.scale),
      "lower `lr`, or raise `warmup_steps`; with a lower `min_scale` the scale can fall further");
}

void Monitor::on_commit(const Commit& commit) {
  committed_ = commit.step + 1;
  if (commit.last) last_ = commit;
  report_whole_steps();
  vote_if_whole();
}

// A report needs the commit and all scores, which arrive in any order. The counters change before
// the call, so that the next incarnation does not report again if this one ends here.
void Monitor::report_whole_steps() {
  report_evaluation();
  while (scores_.reported < committed_ && whole(scores_.reported)) {
    const auto sum = scores_.sums.extract({scores_.reported, Purpose::train});
    const auto norm = scores_.norms.extract(scores_.reported);
    ++scores_.reported;
    const Score::Numbers all = total(sum.mapped().parts);
    const auto samples = static_cast<double>(sum.mapped().samples);
    StepSeen seen{.step = scores_.reported,
                  .loss = all.loss_sum / samples,
                  .accuracy = std::nullopt,
                  .samples = sum.mapped().samples,
                  .duration = lap()};
    if (all.correct) seen.accuracy = static_cast<double>(*all.correct) / samples;
    if (norm) {
      seen.loss_scale = norm.mapped().loss_scale.scale;
      seen.skipped = !std::isfinite(norm.mapped().norm);
    }
    if (options_.on_step) options_.on_step(seen);
    report_evaluation();
  }
  const bool all_made = last_ || committed_ >= options_.timeline.steps;
  if (all_made && scores_.reported == committed_ && !awaits_evaluation()) finish();
}

bool Monitor::awaits_evaluation() const {
  const bool cut_short = last_ && last_->stop_requested;
  return !cut_short && options_.timeline.evaluates_after(scores_.reported - 1) &&
         scores_.evaluated < scores_.reported;
}

// Reports the evaluation after the newest reported step once all of its scores have arrived.
void Monitor::report_evaluation() {
  const std::uint32_t step = scores_.reported;
  if (step == 0 || scores_.evaluated >= step) return;
  const auto found = scores_.sums.find({step - 1, Purpose::evaluate});
  if (found == scores_.sums.end() || found->second.missing > 0) return;
  const Scores::Sum sum = std::move(found->second);
  scores_.sums.erase(found);
  scores_.evaluated = step;
  if (sum.samples != options_.test_count)
    throw Error(ErrorCode::internal,
                fmt::format("the evaluation after step {} has {} of {} samples", step, sum.samples,
                            options_.test_count));
  static_cast<void>(lap());  // the time of the next step begins here
  const Score::Numbers all = total(sum.parts);
  const Evaluation evaluation{step, all.loss_sum / static_cast<double>(sum.samples), all.correct,
                              sum.samples};
  scores_.evaluations.push_back(evaluation);
  if (options_.on_evaluation) options_.on_evaluation(evaluation);
}

}  // namespace troupe
