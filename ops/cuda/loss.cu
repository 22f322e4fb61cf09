// Losses: a warp or a block computes a sample's loss and gradient, and one block then adds the
// samples up, in their order by its threads. Sums are in f64. The host has checked the targets; a
// class outside the classes gives NaN.

#include "ops/cuda/elements.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/layer_checks.h"
#include "ops/cuda/rows.h"
#include "ops/cuda/workspace.h"

namespace troupe::cuda {
namespace {

struct Smaller {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};

struct SampleLoss {
  double loss, correct;
};

__global__ void add_samples(const SampleLoss* samples, std::int64_t count, double* totals) {
  double loss = 0, correct = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += block_threads) {
    loss += samples[i].loss;
    correct += samples[i].correct;
  }
  loss = reduce_block(loss, 0.0, Plus{});
  correct = reduce_block(correct, 0.0, Plus{});
  if (threadIdx.x == 0) totals[0] = loss;
  if (threadIdx.x == 1) totals[1] = correct;
}

struct CrossEntropy {
  std::int64_t samples, classes;
  const std::int64_t* targets;
  const double* weights;  ///< null: 1 for each class
  double scale, smoothing;

  /// How much of -log p a class counts.
  __device__ double share(std::int64_t c, std::int64_t target) const {
    const double part =
        smoothing / static_cast<double>(classes) + (c == target ? 1.0 - smoothing : 0.0);
    return weights ? weights[c] * part : part;
  }
};

/// The place of the largest logit, the first of equal ones; of a NaN if there is one.
template <class Team, class T>
__device__ std::int64_t prediction(const T* row, std::int64_t classes, T largest) {
  std::int64_t place = classes;
  for (std::int64_t c = Team::rank(); c < classes && place == classes; c += Team::size)
    if (row[c] == largest || (largest != largest && row[c] != row[c])) place = c;
  return Team::reduce(place, classes, Smaller{});
}

template <class Team, class T>
__global__ void cross_entropy_kernel(CrossEntropy f, const T* logits, T* gradients,
                                     SampleLoss* losses) {
  for (std::int64_t n = Team::first_row(); n < f.samples; n += Team::row_step()) {
    const T* row = logits + n * f.classes;
    const std::int64_t target = f.targets[n];
    const bool known = target >= 0 && target < f.classes;
    T largest = -INFINITY;
    for (std::int64_t c = Team::rank(); c < f.classes; c += Team::size)
      largest = Larger{}(row[c], largest);
    largest = largest_of_team<Team>(largest);
    const std::int64_t predicted = prediction<Team>(row, f.classes, largest);
    double exponents = 0;
    for (std::int64_t c = Team::rank(); c < f.classes; c += Team::size)
      exponents += std::exp(row[c] - largest);
    exponents = sum_of_team<Team>(exponents);
    const double log_sum = std::log(exponents) + largest;
    double all = 1, loss = known ? log_sum - row[target] : NAN;
    if (f.weights || f.smoothing > 0) {
      double shares = 0, sum = 0;
      for (std::int64_t c = Team::rank(); c < f.classes; c += Team::size) {
        const double share = f.share(c, target);
        shares += share;
        sum += share * (log_sum - row[c]);
      }
      all = sum_of_team<Team>(shares);
      sum = sum_of_team<Team>(sum);
      loss = known ? sum : NAN;
    }
    if (Team::rank() == 0) losses[n] = {loss, known && predicted == target ? 1.0 : 0.0};
    if (!gradients) continue;
    const T factor = static_cast<T>(known ? f.scale * all / exponents : NAN);
    for (std::int64_t c = Team::rank(); c < f.classes; c += Team::size)
      gradients[n * f.classes + c] =
          std::exp(row[c] - largest) * factor - static_cast<T>(f.scale * f.share(c, target));
  }
}

/// Of one output and its target.
struct ElementLoss {
  double loss, slope;  ///< slope: d loss / d output
  bool correct;
};

struct SquaredError {
  __device__ ElementLoss operator()(double x, double target) const {
    return {(x - target) * (x - target), 2 * (x - target), false};
  }
};
/// Finite for every finite x: the exponent is never positive.
struct BinaryCrossEntropy {
  __device__ ElementLoss operator()(double x, double target) const {
    const double small = std::exp(-std::abs(x));
    const double probability = (x < 0 ? small : 1.0) / (1.0 + small);
    const double largest = x < 0 ? 0.0 : x;  // a NaN stays one
    return {largest - x * target + std::log1p(small), probability - target,
            target >= 0.5 ? x > 0 : x <= 0};
  }
};

template <class Team, class T, class F>
__global__ void mean_loss_kernel(F f, const T* outputs, const T* targets, std::int64_t samples,
                                 std::int64_t count, double scale, T* gradients,
                                 SampleLoss* losses) {
  for (std::int64_t n = Team::first_row(); n < samples; n += Team::row_step()) {
    double sum = 0, wrong = 0;
    for (std::int64_t i = Team::rank(); i < count; i += Team::size) {
      const std::int64_t e = n * count + i;
      const ElementLoss one = f(outputs[e], targets[e]);
      sum += one.loss;
      wrong += one.correct ? 0.0 : 1.0;
      if (gradients) gradients[e] = static_cast<T>(scale * one.slope / static_cast<double>(count));
    }
    sum = sum_of_team<Team>(sum);
    wrong = sum_of_team<Team>(wrong);
    if (Team::rank() == 0) losses[n] = {sum / static_cast<double>(count), wrong == 0 ? 1.0 : 0.0};
  }
}

/// Calls `f(losses)` to compute the losses of the samples, and adds them up.
template <class F>
Tensor totals_of(const Stream& stream, std::int64_t samples, F&& f) {
  Tensor totals = result(stream, {2}, DType::f64);
  const Tensor space = workspace(stream, static_cast<std::size_t>(samples) * sizeof(SampleLoss));
  auto* losses = reinterpret_cast<SampleLoss*>(space.raw());
  f(losses);
  Launch(stream, 1, block_threads)(add_samples, losses, samples, output<double>(stream, totals));
  return totals;
}

template <class F>
LossOutput mean_over_outputs(const char* kernel, const Stream& stream, const Tensor& outputs,
                             const Tensor& targets, double scale, bool with_gradient) {
  check_alike(kernel, outputs, targets);
  check_matrix(kernel, outputs);
  LossOutput result;
  if (with_gradient) result.logits_grad = result_like(stream, outputs);
  const std::int64_t samples = outputs.dim(0), count = outputs.dim(1);
  result.totals = totals_of(stream, samples, [&](SampleLoss* losses) {
    visit_float(outputs.dtype(), [&]<class T>(T) {
      for_rows(stream, samples, count, [&]<class Team>(Team, const Launch& launch) {
        launch(mean_loss_kernel<Team, T, F>, F{}, input<T>(stream, outputs),
               input<T>(stream, targets), samples, count, scale,
               output<T>(stream, result.logits_grad), losses);
      });
    });
  });
  return result;
}

}  // namespace

LossOutput softmax_cross_entropy(const Stream& stream, const Tensor& logits, const Tensor& targets,
                                 double scale, bool with_gradient, double label_smoothing,
                                 const Tensor& class_weights) {
  const char* kernel = "softmax_cross_entropy";
  check_matrix(kernel, logits);
  const std::int64_t samples = logits.dim(0), classes = logits.dim(1);
  check_vector(kernel, "the targets", targets, samples, DType::i64);
  if (class_weights.defined())
    check_vector(kernel, "the class weights", class_weights, classes, DType::f64);
  LossOutput result;
  if (with_gradient) result.logits_grad = result_like(stream, logits);
  const CrossEntropy f{samples,
                       classes,
                       input<std::int64_t>(stream, targets),
                       input<double>(stream, class_weights),
                       scale,
                       label_smoothing};
  result.totals = totals_of(stream, samples, [&](SampleLoss* losses) {
    visit_float(logits.dtype(), [&]<class T>(T) {
      for_rows(stream, samples, classes, [&]<class Team>(Team, const Launch& launch) {
        launch(cross_entropy_kernel<Team, T>, f, input<T>(stream, logits),
               output<T>(stream, result.logits_grad), losses);
      });
    });
  });
  return result;
}

LossOutput squared_error(const Stream& stream, const Tensor& outputs, const Tensor& targets,
                         double scale, bool with_gradient) {
  return mean_over_outputs<SquaredError>("squared_error", stream, outputs, targets, scale,
                                         with_gradient);
}

LossOutput binary_cross_entropy(const Stream& stream, const Tensor& outputs, const Tensor& targets,
                                double scale, bool with_gradient) {
  return mean_over_outputs<BinaryCrossEntropy>("binary_cross_entropy", stream, outputs, targets,
                                               scale, with_gradient);
}

}  // namespace troupe::cuda
