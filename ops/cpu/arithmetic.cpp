#include <algorithm>
#include <vector>

#include "ops/cpu/broadcast.h"
#include "ops/cpu/broadcast_rows.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/arithmetic.cpp"
#include <hwy/foreach_target.h>

#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

template <ArithmeticOperation operation, class V>
HWY_INLINE V computed(V a, V b) {
  if constexpr (operation == ArithmeticOperation::add) return hn::Add(a, b);
  if constexpr (operation == ArithmeticOperation::subtract) return hn::Sub(a, b);
  if constexpr (operation == ArithmeticOperation::multiply) return hn::Mul(a, b);
  if constexpr (operation == ArithmeticOperation::divide) return hn::Div(a, b);
}

template <bool repeats, class D>
HWY_INLINE hn::Vec<D> operand(D d, const float* from, std::int64_t i) {
  if constexpr (repeats) return hn::Set(d, *from);
  return hn::LoadU(d, from + i);
}

template <ArithmeticOperation operation, bool a_repeats, bool b_repeats>
void arithmetic_as(const ArithmeticRows& r) {
  for (std::int64_t row = 0; row < r.rows; ++row) {
    const float *a = r.a + row * r.a_step, *b = r.b + row * r.b_step;
    float* y = r.y + row * r.count;
    for_lanes(r.count, [&](auto d, std::int64_t i) HWY_ATTR {
      hn::StoreU(computed<operation>(operand<a_repeats>(d, a, i), operand<b_repeats>(d, b, i)), d,
                 y + i);
    });
  }
}

template <ArithmeticOperation operation>
void arithmetic_of(const ArithmeticRows& r) {
  if (r.a_repeats && r.b_repeats) return arithmetic_as<operation, true, true>(r);
  if (r.a_repeats) return arithmetic_as<operation, true, false>(r);
  if (r.b_repeats) return arithmetic_as<operation, false, true>(r);
  arithmetic_as<operation, false, false>(r);
}

void arithmetic_rows(ArithmeticOperation operation, const ArithmeticRows& r) {
  switch (operation) {
    case ArithmeticOperation::add:
      return arithmetic_of<ArithmeticOperation::add>(r);
    case ArithmeticOperation::subtract:
      return arithmetic_of<ArithmeticOperation::subtract>(r);
    case ArithmeticOperation::multiply:
      return arithmetic_of<ArithmeticOperation::multiply>(r);
    case ArithmeticOperation::divide:
      return arithmetic_of<ArithmeticOperation::divide>(r);
  }
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

HWY_EXPORT(arithmetic_rows);

namespace {

constexpr std::int64_t short_row = 64;

// Rows of a few elements that all have the same second operand, such as blocks of 16 channels times
// a gate: several of them as one, against the operand repeated.
void run_rows(ArithmeticOperation operation, ArithmeticRows r) {
  const std::int64_t together = short_row / r.count;
  if (!r.a_repeats && !r.b_repeats && r.b_step == 0 && r.a_step == r.count && together > 1 &&
      r.rows >= together) {
    float repeated[short_row];
    for (std::int64_t i = 0; i < together; ++i) std::copy_n(r.b, r.count, repeated + i * r.count);
    ArithmeticRows whole = r;
    whole.b = repeated;
    whole.rows = r.rows / together;
    whole.count = whole.a_step = together * r.count;
    HWY_DYNAMIC_DISPATCH(arithmetic_rows)(operation, whole);
    const std::int64_t done = whole.rows * together;
    r.a += done * r.count;
    r.y += done * r.count;
    r.rows -= done;
  }
  if (r.rows > 0) HWY_DYNAMIC_DISPATCH(arithmetic_rows)(operation, r);
}

struct Operands {
  const float *a, *b;
};

/// One row is divided among the threads by its elements.
void compute_row(const Stream& stream, ArithmeticOperation operation, const BroadcastPlan& plan,
                 const Operands& from, float* to) {
  const BroadcastPlan::Axis inner = plan.inner();
  parallel(stream, inner.size, elements_per_thread, [&](std::int64_t begin, std::int64_t end) {
    ArithmeticRows r{.a = from.a + begin * inner.steps[0],
                     .b = from.b + begin * inner.steps[1],
                     .y = to + begin,
                     .rows = 1,
                     .count = end - begin,
                     .a_step = 0,
                     .b_step = 0,
                     .a_repeats = inner.steps[0] == 0,
                     .b_repeats = inner.steps[1] == 0};
    HWY_DYNAMIC_DISPATCH(arithmetic_rows)(operation, r);
  });
}

void compute(const Stream& stream, ArithmeticOperation operation, const BroadcastPlan& plan,
             const Operands& from, float* to) {
  const BroadcastPlan::Axis inner = plan.inner();
  if (inner.size == 0) return;
  if (plan.rank == 1) return compute_row(stream, operation, plan, from, to);
  const std::int64_t grain = std::max<std::int64_t>(1, elements_per_thread / inner.size);
  parallel(stream, plan.rows(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (RowWalk walk(plan, plan.rank - 1, begin, end); !walk.done(); walk.next())
      run_rows(operation, {.a = from.a + walk.offset(0),
                           .b = from.b + walk.offset(1),
                           .y = to + walk.at() * inner.size,
                           .rows = walk.run(),
                           .count = inner.size,
                           .a_step = walk.step(0),
                           .b_step = walk.step(1),
                           .a_repeats = inner.steps[0] == 0,
                           .b_repeats = inner.steps[1] == 0});
  });
}

}  // namespace

Tensor arithmetic(const Stream& stream, ArithmeticOperation operation, const Tensor& a,
                  const Tensor& b) {
  const auto [shape, layout] = broadcast_form(a, b);
  const BroadcastPlan plan = BroadcastPlan::of("arithmetic", shape, layout, {&a, &b});
  Tensor y = Tensor::empty(shape, DType::f32, stream.device, layout);
  compute(stream, operation, plan, {a.data<float>(), b.data<float>()}, y.data<float>());
  return y;
}

Tensor broadcast(const Stream& stream, const Tensor& x, const Shape& shape, Layout layout,
                 double factor) {
  const auto by = static_cast<float>(factor);
  const BroadcastPlan plan = BroadcastPlan::of("broadcast", shape, layout, {&x});
  Tensor y = Tensor::empty(shape, DType::f32, stream.device, layout);
  compute(stream, ArithmeticOperation::multiply, plan, {x.data<float>(), &by}, y.data<float>());
  return y;
}

}  // namespace troupe::cpu
#endif
