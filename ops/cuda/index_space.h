#pragma once
// Loops over several axes as one range of numbers, which threads divide.

#include <bit>
#include <cstdint>

#include "ops/cuda/launch.h"
#include "runtime/tensor/shape.h"

namespace troupe::cuda {

__device__ inline std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

/// Divides by a number of at least 2 that the host knows, with one product (T. Granlund,
/// P. L. Montgomery, "Division by invariant integers using multiplication", PLDI 1994, theorem 4.2
/// for numbers of 63 bits): a GPU has no instruction that divides integers.
class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(std::int64_t by)
      : shift_(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(by) - 1)) - 1),
        factor_(static_cast<std::uint64_t>((static_cast<unsigned __int128>(1) << (64 + shift_)) /
                                           static_cast<std::uint64_t>(by)) +
                1) {}

  /// Of a number that is not negative.
  __device__ std::int64_t quotient(std::int64_t number) const {
    return static_cast<std::int64_t>(__umul64hi(static_cast<std::uint64_t>(number), factor_) >>
                                     shift_);
  }

 private:
  int shift_ = 0;
  std::uint64_t factor_ = 0;
};

/// The elements of nested loops, numbered in their order, and where each of `operands` has them: an
/// axis moves an operand by its step.
template <int operands>
class IndexSpace {
 public:
  struct Steps {
    std::int64_t of[operands];
  };

  /// Adds a loop inside of the others. None of its size may be 0.
  void add(std::int64_t size, const Steps& steps) {
    if (size == 1) return;
    sizes_[rank_] = size;
    by_[rank_] = Divisor(size);
    steps_[rank_] = steps;
    ++rank_;
    count_ *= size;
  }

  __device__ __host__ std::int64_t count() const { return count_; }

  /// The places of element `number`.
  __device__ Steps places(std::int64_t number) const {
    Steps places{};
    for (int axis = rank_ - 1; axis > 0; --axis) {
      const std::int64_t rest = by_[axis].quotient(number);
      add_steps(places, axis, number - rest * sizes_[axis]);
      number = rest;
    }
    add_steps(places, 0, number);  // of no axis: the steps are 0
    return places;
  }

 private:
  __device__ void add_steps(Steps& places, int axis, std::int64_t times) const {
    for (int i = 0; i < operands; ++i) places.of[i] += times * steps_[axis].of[i];
  }

  static constexpr int max_axes = Shape::max_rank + 1;
  int rank_ = 0;
  std::int64_t count_ = 1;
  std::int64_t sizes_[max_axes] = {};
  Divisor by_[max_axes];
  Steps steps_[max_axes] = {};
};

}  // namespace troupe::cuda
