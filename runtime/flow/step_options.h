#pragma once
#include <chrono>
#include <cstdint>

namespace troupe {

/// How often one actor may be replaced before the run fails. Deaths without a commit between them
/// count however far apart they are: such a run gets nowhere.
struct RestartBudget {
  int max = 3;
  std::chrono::milliseconds within{60'000};
};

/// Which steps a run has and after which of them a snapshot is due.
struct StepOptions {
  std::uint32_t first = 0;  ///< steps that are whole already (a resumed run)
  /// The run ends when so many are whole, and nobody holds it open: also where `first` are.
  std::uint32_t count = 0;
  std::uint32_t snapshot_every = 0;
  bool snapshot_at_end = false;
};

}  // namespace troupe
