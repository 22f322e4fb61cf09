// Steps of optimizers over flat arrays, in the order of the reference's operations.

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>

#include "ops/cuda/elements.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"
#include "runtime/error.h"

namespace troupe::cuda {
namespace {

template <class T>
struct Momentum {
  T lr, momentum, weight_decay;
  bool nesterov;
  const T *weights, *gradient, *old;  ///< old: null in the first step
  T *new_weights, *next;              ///< next: null without momentum

  template <int N>
  __device__ void step(std::int64_t pack) const {
    using P = Pack<T, N>;
    P w = reinterpret_cast<const P*>(weights)[pack], d = reinterpret_cast<const P*>(gradient)[pack];
#pragma unroll
    for (int j = 0; j < N; ++j)
      if (weight_decay != T(0)) d.at[j] += weight_decay * w.at[j];
    if (next != nullptr) {
      P m = d;
      if (old != nullptr) {
        m = reinterpret_cast<const P*>(old)[pack];
#pragma unroll
        for (int j = 0; j < N; ++j) m.at[j] = momentum * m.at[j] + d.at[j];
      }
      reinterpret_cast<P*>(next)[pack] = m;
#pragma unroll
      for (int j = 0; j < N; ++j) d.at[j] = nesterov ? d.at[j] + momentum * m.at[j] : m.at[j];
    }
#pragma unroll
    for (int j = 0; j < N; ++j) w.at[j] -= lr * d.at[j];
    reinterpret_cast<P*>(new_weights)[pack] = w;
  }
};

template <class T>
struct Adam {
  T kept, decay, weight1, weight2, keep2, step_size, root, epsilon;
  const T *weights, *gradient, *exp_avg, *exp_avg_sq;  ///< averages: null in the first update
  T *new_weights, *new_exp_avg, *new_exp_avg_sq;

  /// torch.lerp, which computes from the nearer end.
  __device__ T lerp(T from, T to) const {
    return weight1 < T(0.5) ? from + weight1 * (to - from) : to - (to - from) * (T(1) - weight1);
  }

  template <int N>
  __device__ void step(std::int64_t pack) const {
    using P = Pack<T, N>;
    P w = reinterpret_cast<const P*>(weights)[pack], m{}, v{};
    const P g = reinterpret_cast<const P*>(gradient)[pack];
    if (exp_avg != nullptr) {
      m = reinterpret_cast<const P*>(exp_avg)[pack];
      v = reinterpret_cast<const P*>(exp_avg_sq)[pack];
    }
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const T slope = decay != T(0) ? g.at[j] + decay * w.at[j] : g.at[j];
      m.at[j] = lerp(m.at[j], slope);
      v.at[j] = keep2 * v.at[j] + weight2 * slope * slope;
      w.at[j] = kept * w.at[j] - step_size * m.at[j] / (std::sqrt(v.at[j]) / root + epsilon);
    }
    reinterpret_cast<P*>(new_exp_avg)[pack] = m;
    reinterpret_cast<P*>(new_exp_avg_sq)[pack] = v;
    reinterpret_cast<P*>(new_weights)[pack] = w;
  }
};

template <int N, class Step>
__global__ void step_kernel(Step step, std::int64_t count) {
  const std::int64_t packs = count / N;
  for (std::int64_t i = first_index(); i < packs; i += grid_threads()) step.template step<N>(i);
  for (std::int64_t i = packs * N + first_index(); i < count; i += grid_threads())
    step.template step<1>(i);
}

/// `arrays` are those of the step, some of them null.
template <class T, class Step>
void run(const Stream& stream, const Step& step, std::int64_t count,
         std::initializer_list<const T*> arrays) {
  constexpr int width = pack_width<T>;
  if (count == 0) return;
  const bool aligned =
      std::ranges::all_of(arrays, [](const T* array) { return aligned_for_packs(array); });
  if (aligned)
    Launch(stream, blocks_for((count + width - 1) / width), block_threads)(step_kernel<width, Step>,
                                                                           step, count);
  else
    Launch(stream, blocks_for(count), block_threads)(step_kernel<1, Step>, step, count);
}

/// Throws Error{bad_shape} unless all are as long as the weights and of their type.
void check_vectors(const char* kernel, const Tensor& weights,
                   std::initializer_list<const Tensor*> others) {
  for (const Tensor* other : others)
    if (!other->defined() || other->dtype() != weights.dtype() ||
        other->element_count() != weights.element_count())
      throw Error(ErrorCode::bad_shape,
                  std::string(kernel) + ": an array of " + to_string(other->shape()) +
                      " beside weights of " + to_string(weights.shape()),
                  "all arrays of a step have one length and one type");
}

}  // namespace

void momentum_step(const Stream& stream, const MomentumStep& factors, const Tensor& weights,
                   const Tensor& gradient, const Tensor& momentum, Tensor& new_weights,
                   Tensor& new_momentum) {
  check_vectors("momentum_step", weights, {&gradient, &new_weights});
  const bool keeps = factors.momentum != 0.0;
  if (keeps) check_vectors("momentum_step", weights, {&new_momentum});
  if (keeps && momentum.defined()) check_vectors("momentum_step", weights, {&momentum});
  visit_float(weights.dtype(), [&]<class T>(T) {
    const Momentum<T> step{.lr = static_cast<T>(factors.lr),
                           .momentum = static_cast<T>(factors.momentum),
                           .weight_decay = static_cast<T>(factors.weight_decay),
                           .nesterov = factors.nesterov,
                           .weights = input<T>(stream, weights),
                           .gradient = input<T>(stream, gradient),
                           .old = keeps ? input<T>(stream, momentum) : nullptr,
                           .new_weights = output<T>(stream, new_weights),
                           .next = keeps ? output<T>(stream, new_momentum) : nullptr};
    run<T>(stream, step, weights.element_count(),
           {step.weights, step.gradient, step.old, step.new_weights, step.next});
  });
}

void adam_step(const Stream& stream, const AdamStep& factors, const Tensor& weights,
               const Tensor& gradient, const Tensor& exp_avg, const Tensor& exp_avg_sq,
               Tensor& new_weights, Tensor& new_exp_avg, Tensor& new_exp_avg_sq) {
  check_vectors("adam_step", weights, {&gradient, &new_weights, &new_exp_avg, &new_exp_avg_sq});
  if (exp_avg.defined()) check_vectors("adam_step", weights, {&exp_avg, &exp_avg_sq});
  const bool decoupled = factors.decoupled_decay;
  visit_float(weights.dtype(), [&]<class T>(T) {
    const Adam<T> step{
        .kept = static_cast<T>(decoupled ? 1.0 - factors.lr * factors.weight_decay : 1.0),
        .decay = static_cast<T>(decoupled ? 0.0 : factors.weight_decay),
        .weight1 = static_cast<T>(1.0 - factors.beta1),
        .weight2 = static_cast<T>(1.0 - factors.beta2),
        .keep2 = static_cast<T>(factors.beta2),
        .step_size = static_cast<T>(factors.lr / factors.correction1),
        .root = static_cast<T>(std::sqrt(factors.correction2)),
        .epsilon = static_cast<T>(factors.epsilon),
        .weights = input<T>(stream, weights),
        .gradient = input<T>(stream, gradient),
        .exp_avg = input<T>(stream, exp_avg),
        .exp_avg_sq = exp_avg.defined() ? input<T>(stream, exp_avg_sq) : nullptr,
        .new_weights = output<T>(stream, new_weights),
        .new_exp_avg = output<T>(stream, new_exp_avg),
        .new_exp_avg_sq = output<T>(stream, new_exp_avg_sq)};
    run<T>(stream, step, weights.element_count(),
           {step.weights, step.gradient, step.exp_avg, step.exp_avg_sq, step.new_weights,
            step.new_exp_avg, step.new_exp_avg_sq});
  });
}

}  // namespace troupe::cuda
