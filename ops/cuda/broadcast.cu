#include "ops/broadcast_plan.h"
#include "ops/cuda/convert.h"
#include "ops/cuda/elements.h"
#include "ops/cuda/index_space.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/numbers.h"
#include "ops/cuda/reduce.h"

namespace troupe::cuda {
namespace {

struct Subtract {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a - b;
  }
};
struct Multiply {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a * b;
  }
};
struct Divide {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a / b;
  }
};

template <class S>
struct Operand {
  using T = Computed<S>;
  const S* elements;  ///< null: `value` everywhere
  T value;
  bool repeats;  ///< one element for all of the innermost axis

  /// N elements that lie one behind the other, or the same one.
  template <int N>
  __device__ Pack<T, N> load(std::int64_t place) const {
    if (elements != nullptr && !repeats) return load_pack<S, N>(elements, place);
    const T one = elements != nullptr ? computed(elements[place]) : value;
    Pack<T, N> pack;
#pragma unroll
    for (int j = 0; j < N; ++j) pack.at[j] = one;
    return pack;
  }
};

template <int N, class S, class Op>
__global__ void broadcast_kernel(Op op, IndexSpace<2> space, Operand<S> a, Operand<S> b, S* y) {
  using T = Computed<S>;
  for (std::int64_t i = first_index(); i < space.count(); i += grid_threads()) {
    const auto places = space.places(i);
    const Pack<T, N> left = a.template load<N>(places.of[0]);
    const Pack<T, N> right = b.template load<N>(places.of[1]);
    Pack<T, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) out.at[j] = op(left.at[j], right.at[j]);
    store_pack<S, N>(y, i * N, out);
  }
}

/// Whether rows divide into packs that each operand has in one piece, or as one element. An operand
/// is dense, so that all its rows are as many elements long.
template <class S>
bool computes_packs(const BroadcastPlan& plan, const Operand<S>& a, const Operand<S>& b,
                    const S* y) {
  const auto fits = [](const Operand<S>& operand) {
    return operand.elements == nullptr || operand.repeats || aligned_for_packs(operand.elements);
  };
  return plan.inner().size % pack_width<S> == 0 && aligned_for_packs(y) && fits(a) && fits(b);
}

template <int N, class S, class Op>
void launch(const Stream& stream, Op op, const BroadcastPlan& plan, const Operand<S>& a,
            const Operand<S>& b, S* y) {
  IndexSpace<2> space;
  for (int axis = 0; axis + 1 < plan.rank; ++axis) {
    const BroadcastPlan::Axis& outer = plan.axes[static_cast<std::size_t>(axis)];
    space.add(outer.size, {{outer.steps[0], outer.steps[1]}});
  }
  const BroadcastPlan::Axis& inner = plan.inner();
  space.add(inner.size / N, {{inner.steps[0] * N, inner.steps[1] * N}});
  Launch(stream, blocks_for(space.count()), block_threads)(broadcast_kernel<N, S, Op>, op, space, a,
                                                           b, y);
}

template <class S, class Op>
void compute(const Stream& stream, Op op, const BroadcastPlan& plan, const Operand<S>& a,
             const Operand<S>& b, S* y) {
  if (computes_packs(plan, a, b, y)) return launch<pack_width<S>>(stream, op, plan, a, b, y);
  launch<1>(stream, op, plan, a, b, y);
}

template <class F>
void visit_operation(ArithmeticOperation operation, const F& f) {
  switch (operation) {
    case ArithmeticOperation::add:
      return f(Plus());
    case ArithmeticOperation::subtract:
      return f(Subtract());
    case ArithmeticOperation::multiply:
      return f(Multiply());
    case ArithmeticOperation::divide:
      return f(Divide());
  }
}

template <class S>
Operand<S> operand(const Stream& stream, const BroadcastPlan& plan, const Tensor& tensor,
                   std::size_t number) {
  return {input<S>(stream, tensor), {}, plan.inner().steps[number] == 0};
}

}  // namespace

Tensor arithmetic(const Stream& stream, ArithmeticOperation operation, const Tensor& a,
                  const Tensor& b) {
  if (a.dtype() != b.dtype() && (is_narrow(a.dtype()) || is_narrow(b.dtype())))
    return arithmetic(stream, operation, widened(stream, a), widened(stream, b));
  const auto [shape, layout] = broadcast_form(a, b);
  const BroadcastPlan plan = BroadcastPlan::of("arithmetic", shape, layout, {&a, &b});
  Tensor y = result(stream, shape, a.dtype(), layout);
  if (y.element_count() == 0) return y;
  visit_stored(a.dtype(), [&]<class S>(S, auto) {
    visit_operation(operation, [&](auto op) {
      compute(stream, op, plan, operand<S>(stream, plan, a, 0), operand<S>(stream, plan, b, 1),
              output<S>(stream, y));
    });
  });
  return y;
}

Tensor broadcast(const Stream& stream, const Tensor& x, const Shape& shape, Layout layout,
                 double factor) {
  const BroadcastPlan plan = BroadcastPlan::of("broadcast", shape, layout, {&x});
  Tensor y = result(stream, shape, x.dtype(), layout);
  if (y.element_count() == 0) return y;
  visit_stored(x.dtype(), [&]<class S, class T>(S, T) {
    const Operand<S> everywhere{nullptr, static_cast<T>(factor), true};
    compute(stream, Multiply(), plan, operand<S>(stream, plan, x, 0), everywhere,
            output<S>(stream, y));
  });
  return y;
}

}  // namespace troupe::cuda
