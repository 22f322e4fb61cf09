// Steps of optimizers over flat arrays, in the order of the reference's operations. One launch does
// as many updates as its arguments hold.

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
#include <vector>

#include "ops/cuda/elements.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/segments.h"
#include "runtime/error.h"

namespace troupe::cuda {
namespace {

template <class T>
struct Scaling {
  T limit;
  double factor;

  static Scaling from(const GradientScaling& scaling) {
    return {scaling.limit_in<T>(), scaling.factor};
  }

  __device__ T of(T gradient) const {
    const T limited = gradient < -limit ? -limit : gradient > limit ? limit : gradient;
    return factor == 1.0 ? limited : static_cast<T>(factor * static_cast<double>(limited));
  }
};

template <class T>
struct Momentum {
  Scaling<T> scaling;
  T lr, momentum, weight_decay;
  bool nesterov;
  const T *weights, *gradient, *old;  ///< old: null in the first step
  T *new_weights, *next;              ///< next: null without momentum

  template <int N>
  __device__ void step(std::int64_t pack) const {
    using P = Pack<T, N>;
    P w = reinterpret_cast<const P*>(weights)[pack], d = reinterpret_cast<const P*>(gradient)[pack];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      d.at[j] = scaling.of(d.at[j]);
      if (weight_decay != T(0)) d.at[j] += weight_decay * w.at[j];
    }
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
  Scaling<T> scaling;
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
      const T own = scaling.of(g.at[j]), slope = decay != T(0) ? own + decay * w.at[j] : own;
      m.at[j] = lerp(m.at[j], slope);
      v.at[j] = keep2 * v.at[j] + weight2 * slope * slope;
      w.at[j] = kept * w.at[j] - step_size * m.at[j] / (std::sqrt(v.at[j]) / root + epsilon);
    }
    reinterpret_cast<P*>(new_exp_avg)[pack] = m;
    reinterpret_cast<P*>(new_exp_avg_sq)[pack] = v;
    reinterpret_cast<P*>(new_weights)[pack] = w;
  }
};

/// A tile is what a block does at once: one pack for each of its threads.
template <int N, class Step>
__global__ void step_kernel(const __grid_constant__ Segments<Step> steps, std::int64_t tiles) {
  unsigned s = 0;
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    s = steps.of_block(tile, s);
    const std::int64_t count = steps.at[s].count;
    const std::int64_t pack = (tile - steps.begin(s)) * blockDim.x + threadIdx.x;
    if ((pack + 1) * N <= count)
      steps.at[s].item.template step<N>(pack);
    else
      for (std::int64_t i = pack * N; i < count; ++i) steps.at[s].item.template step<1>(i);
  }
}

/// Launches the steps that it is given, when its arguments are full and at the end.
template <class T, class Step>
class Batch {
 public:
  explicit Batch(const Stream& stream) : stream_(stream) {}

  /// `arrays` are those of the step, some of them null.
  void add(const Step& step, std::int64_t count, std::initializer_list<const T*> arrays) {
    if (count == 0) return;
    const bool aligned =
        std::ranges::all_of(arrays, [](const T* array) { return aligned_for_packs(array); });
    if (size_ == Segments<Step>::most || aligned != aligned_) launch();
    aligned_ = aligned;
    const std::int64_t of_tile = std::int64_t{block_threads} * (aligned ? pack_width<T> : 1);
    tiles_ += (count + of_tile - 1) / of_tile;
    steps_.at[size_++] = {step, count, tiles_};
  }
  void launch() {
    if (size_ == 0) return;
    const Launch launch(stream_, blocks_for(tiles_, 1), block_threads);
    if (aligned_)
      launch(step_kernel<pack_width<T>, Step>, steps_, tiles_);
    else
      launch(step_kernel<1, Step>, steps_, tiles_);
    size_ = 0;
    tiles_ = 0;
  }

 private:
  const Stream& stream_;
  Segments<Step> steps_{};
  std::size_t size_ = 0;
  std::int64_t tiles_ = 0;
  bool aligned_ = true;
};

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

void check_type(const char* kernel, const Tensor& weights, DType dtype) {
  if (weights.defined() && weights.dtype() == dtype) return;
  throw Error(ErrorCode::bad_shape, std::string(kernel) + ": updates of several types",
              "give updates of one type");
}

void check(const MomentumUpdate& update, DType dtype) {
  const auto& [factors, weights, gradient, momentum, new_weights, new_momentum] = update;
  check_type("momentum_step", weights, dtype);
  check_vectors("momentum_step", weights, {&gradient, &new_weights});
  if (factors.momentum == 0.0) return;
  check_vectors("momentum_step", weights, {&new_momentum});
  if (momentum.defined()) check_vectors("momentum_step", weights, {&momentum});
}

void check(const AdamUpdate& update, DType dtype) {
  check_type("adam_step", update.weights, dtype);
  check_vectors(
      "adam_step", update.weights,
      {&update.gradient, &update.new_weights, &update.new_exp_avg, &update.new_exp_avg_sq});
  if (update.exp_avg.defined())
    check_vectors("adam_step", update.weights, {&update.exp_avg, &update.exp_avg_sq});
}

template <class T>
void add(Batch<T, Momentum<T>>& batch, const Stream& stream, const MomentumUpdate& update) {
  const MomentumStep& factors = update.factors;
  const bool keeps = factors.momentum != 0.0;
  const Momentum<T> step{.scaling = Scaling<T>::from(factors.scaling),
                         .lr = static_cast<T>(factors.lr),
                         .momentum = static_cast<T>(factors.momentum),
                         .weight_decay = static_cast<T>(factors.weight_decay),
                         .nesterov = factors.nesterov,
                         .weights = input<T>(stream, update.weights),
                         .gradient = input<T>(stream, update.gradient),
                         .old = keeps ? input<T>(stream, update.momentum) : nullptr,
                         .new_weights = output<T>(stream, update.new_weights),
                         .next = keeps ? output<T>(stream, update.new_momentum) : nullptr};
  batch.add(step, update.weights.element_count(),
            {step.weights, step.gradient, step.old, step.new_weights, step.next});
}

template <class T>
void add(Batch<T, Adam<T>>& batch, const Stream& stream, const AdamUpdate& update) {
  const AdamStep& factors = update.factors;
  const bool decoupled = factors.decoupled_decay, first = !update.exp_avg.defined();
  const Adam<T> step{
      .scaling = Scaling<T>::from(factors.scaling),
      .kept = static_cast<T>(decoupled ? 1.0 - factors.lr * factors.weight_decay : 1.0),
      .decay = static_cast<T>(decoupled ? 0.0 : factors.weight_decay),
      .weight1 = static_cast<T>(1.0 - factors.beta1),
      .weight2 = static_cast<T>(1.0 - factors.beta2),
      .keep2 = static_cast<T>(factors.beta2),
      .step_size = static_cast<T>(factors.lr / factors.correction1),
      .root = static_cast<T>(std::sqrt(factors.correction2)),
      .epsilon = static_cast<T>(factors.epsilon),
      .weights = input<T>(stream, update.weights),
      .gradient = input<T>(stream, update.gradient),
      .exp_avg = first ? nullptr : input<T>(stream, update.exp_avg),
      .exp_avg_sq = first ? nullptr : input<T>(stream, update.exp_avg_sq),
      .new_weights = output<T>(stream, update.new_weights),
      .new_exp_avg = output<T>(stream, update.new_exp_avg),
      .new_exp_avg_sq = output<T>(stream, update.new_exp_avg_sq)};
  batch.add(step, update.weights.element_count(),
            {step.weights, step.gradient, step.exp_avg, step.exp_avg_sq, step.new_weights,
             step.new_exp_avg, step.new_exp_avg_sq});
}

/// Nothing is launched unless all updates are sound.
template <template <class> class Step, class Update>
void run(const Stream& stream, const std::vector<Update>& updates) {
  if (updates.empty()) return;
  const DType dtype = updates.front().weights.dtype();
  for (const Update& update : updates) check(update, dtype);
  visit_float(dtype, [&]<class T>(T) {
    Batch<T, Step<T>> batch(stream);
    for (const Update& update : updates) add(batch, stream, update);
    batch.launch();
  });
}

}  // namespace

void momentum_step(const Stream& stream, const std::vector<MomentumUpdate>& updates) {
  run<Momentum>(stream, updates);
}

void adam_step(const Stream& stream, const std::vector<AdamUpdate>& updates) {
  run<Adam>(stream, updates);
}

}  // namespace troupe::cuda
