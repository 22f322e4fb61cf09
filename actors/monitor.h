#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "actors/early_stopping.h"
#include "actors/evaluation.h"
#include "actors/messages.h"
#include "actors/timeline.h"
#include "ops/optim/loss_scale.h"
#include "runtime/flow/actor.h"

namespace troupe {

/// The result of a committed step. `step` is 1 after the first step.
struct StepSeen {
  std::uint32_t step = 0;
  double loss = 0;                     ///< mean over the step's samples
  std::optional<double> accuracy = 0;  ///< none for a loss without accuracy
  std::int64_t samples = 0;
  std::chrono::nanoseconds duration{0};   ///< since the step before, or since the last evaluation
  std::optional<double> loss_scale = {};  ///< none if losses are not scaled
  bool skipped = false;  ///< its gradient was not finite: the weights are those from before
};

/// The progress of an evaluation.
struct EvaluationProgress {
  std::uint32_t step = 0;    ///< committed steps before the evaluation
  std::int64_t counted = 0;  ///< samples that are evaluated
  std::int64_t count = 0;    ///< samples of the test set
};

/// The scores that a monitor has collected. They belong to the run: the monitor's next incarnation
/// continues with them.
struct Scores {
  struct Sum {
    std::vector<std::optional<Score::Numbers>> parts;  ///< by micro-batch
    std::uint32_t missing = 0;
    std::int64_t samples = 0;  ///< of the parts that have arrived
  };
  std::map<std::pair<std::uint32_t, Purpose>, Sum> sums;
  std::map<std::uint32_t, GradientNormOfStep> norms;  ///< of steps that are not reported
  std::uint32_t reported = 0;                         ///< steps
  std::uint32_t evaluated = 0;          ///< steps after which the newest evaluation was reported
  std::vector<Evaluation> evaluations;  ///< after EarlyStopping::before, those that were reported
  std::chrono::steady_clock::time_point since;
};

struct MonitorOptions {
  Timeline timeline;
  EarlyStopping stopping;
  LearningRateOptions rate = {};                    ///< of a plateau schedule
  std::optional<LossScaleOptions> loss_scale = {};  ///< as in StageOptions
  /// Fail at a loss that is not finite, and at a gradient that is not with the smallest loss scale,
  /// before the step is committed.
  bool stop_on_nan = true;
  std::int64_t test_count = 0;  ///< samples of the test set
  /// Called in order, on an actor thread; must not block.
  std::function<void(const StepSeen&)> on_step;
  std::function<void(const EvaluationProgress&)>
      on_evaluation_progress;  ///< for each micro-batch of the test set
  std::function<void(const Evaluation&)> on_evaluation;
  std::shared_ptr<Scores> scores = std::make_shared<Scores>();
};

/// Options of a monitor that prints a line for each step and each evaluation to standard output.
MonitorOptions print_steps(const Timeline& timeline, std::int64_t test_count);

/// Sums the scores of micro-batches, in the order of their indices, into the results of steps and
/// evaluations. Votes for a step when all scores of this step and of the evaluation before it have
/// arrived, so that no score is in flight at the commit. Ends the run after an evaluation that
/// meets the criteria of `stopping`. Keeps the run open until the last evaluation ends.
///
/// Fails with `diverged` as MonitorOptions::stop_on_nan says, and with `internal` if an evaluation
/// has a different number of samples from `test_count`.
class Monitor final : public Actor {
 public:
  using Options = MonitorOptions;
  explicit Monitor(MonitorOptions options);

  Input<Score> score{this, "score"};
  /// From a GradientNorm, if losses are scaled: a step is reported with its scale.
  Input<GradientNormOfStep> gradient_norm{this, "gradient_norm", Connection::optional};
  /// To every stage, if the schedule is `plateau`: one message for each step, after the evaluation
  /// that precedes the step.
  Output<RateFactor> rate_factor{this, "rate_factor", Connection::optional};

  bool ready() const override {
    return may_vote_ || score.ready() || gradient_norm.ready() || can_send_factor();
  }
  ActionLabel act() override;
  /// Norms and factors come once a step, not once a micro-batch.
  FiringRules firing_rules() const override {
    return {{{.name = "M", .takes = {{&score}}, .releases = {{&score}}, .fills = {}}}, {}};
  }
  bool votes() const override { return true; }
  void on_commit(const Commit& commit) override;
  bool outlives_steps() const override { return true; }
  void begin_run() override { scores_ = {}; }
  void restore(const CommittedState& state, std::uint32_t steps) override;

 private:
  /// True if no evaluation is due before the open step, or if it is reported.
  bool has_evaluated() const;
  bool can_send_factor() const;
  ActionLabel send_factor();
  ActionLabel take_norm();
  /// All scores and the norm of a training step; null until all have arrived.
  const Scores::Sum* whole(std::uint32_t step) const;
  void vote_if_whole();
  bool stops_early() const;
  void refuse_what_is_not_finite(double loss) const;
  void end_if_scale_cannot_recover() const;
  void report_whole_steps();
  void report_evaluation();
  bool awaits_evaluation() const;
  bool is_reported(const MessageKey& key) const;
  std::chrono::nanoseconds lap();

  MonitorOptions options_;
  Scores& scores_;
  std::uint32_t committed_ = 0;               ///< steps
  std::optional<std::uint32_t> voted_;        ///< the newest step voted for
  std::optional<std::uint32_t> factor_sent_;  ///< of the newest step
  std::optional<Commit> last_;
  bool may_vote_ = false;  ///< a replacement's scores may be whole, so that no message comes
};

}  // namespace troupe
