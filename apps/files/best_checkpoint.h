#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/early_stopping.h"

namespace troupe {

/// The evaluation with the best score of those after which there is a checkpoint in `folder`.
std::optional<Evaluation> best_with_checkpoint(const std::filesystem::path& folder,
                                               MonitoredScore monitor,
                                               std::vector<Evaluation> evaluations);

/// A checkpoint, and the evaluation of its weights.
struct EvaluatedCheckpoint {
  std::filesystem::path folder;
  Evaluation evaluation;
  std::string_view monitor;          ///< the name of the score by which it was chosen
  std::vector<std::string> skipped;  ///< damaged ones with better scores: "FOLDER: reason"
};

/// The best checkpoint in the output folder of a run by train.monitor of its newest checkpoint,
/// with the evaluations of its train.csv. Those with a wrong manifest, size or index are skipped.
/// None if `run` is no such folder, or no evaluation has another checkpoint.
std::optional<EvaluatedCheckpoint> best_checkpoint_of(const std::filesystem::path& run);

/// The same for --best, with a warning for each that is skipped. Throws Error{usage} if there is
/// none.
std::filesystem::path find_best_weights(const std::filesystem::path& run);

/// "test loss 0.2341, test accuracy 0.9131 (9131/10000)"
std::string scores_text(const Evaluation& evaluation, std::string_view between = ", ");

}  // namespace troupe
