#pragma once
#include <array>
#include <cstdint>

#include "ops/broadcast_plan.h"

namespace troupe::cpu {

/// Steps through rows of a plan: of each run of rows that lie at equal distances, the offsets of
/// the first one in the operands.
class RowWalk {
 public:
  /// Over the axes [0, axes) of a plan, from the flat index `begin` to `end`.
  RowWalk(const BroadcastPlan& plan, int axes, std::int64_t begin, std::int64_t end);

  bool done() const { return at_ >= end_; }
  std::int64_t at() const { return at_; }
  std::int64_t run() const { return run_; }  ///< rows of this run
  std::int64_t offset(std::size_t operand) const { return offsets_[operand]; }
  /// Between the rows of a run.
  std::int64_t step(std::size_t operand) const {
    return axes_ == 0 ? 0 : plan_.axes[static_cast<std::size_t>(axes_ - 1)].steps[operand];
  }
  void next();

 private:
  void find();

  const BroadcastPlan& plan_;
  int axes_;
  std::int64_t at_, end_;
  std::int64_t run_ = 0;
  std::array<std::int64_t, BroadcastPlan::max_operands> offsets_{};
};

}  // namespace troupe::cpu
