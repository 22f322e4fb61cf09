#pragma once
#include <chrono>
#include <cstdint>
#include <vector>

namespace troupe {

/// How often one actor may be replaced before the run fails: `max` times in the period `within`.
/// Failures without a commit between them count regardless of the period, because such a run makes
/// no progress.
struct RestartBudget {
  int max = 3;
  std::chrono::milliseconds within{60'000};
};

/// The steps of a run, and when a snapshot is due.
struct StepOptions {
  std::uint32_t first = 0;  ///< steps that are committed already (a resumed run)
  /// The run ends when this many steps are committed and no actor holds it open.
  std::uint32_t count = 0;
  std::vector<std::uint32_t> snapshot_every;  ///< periods in steps; 0: none
  /// A period whose snapshots may not be late: such a commit waits until the writers can take the
  /// snapshot. Others are put off to a later commit instead, and training does not wait. 0: none.
  std::uint32_t exact_snapshot_every = 0;
  /// Time after which another snapshot is due, from the first commit or the last snapshot; 0: none.
  std::chrono::milliseconds snapshot_after{0};
  bool snapshot_at_end = false;
};

}  // namespace troupe
