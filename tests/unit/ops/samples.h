#pragma once
// Every primitive on small odd shapes: what the gradient, layout and golden tests run.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/tape.h"

namespace troupe::testing_ops {

/// Kernels with state live as long as the run that uses them.
struct OwnedKernels {
  std::vector<std::unique_ptr<LayerKernel>> kernels;
};

using Record = std::function<Value(Tape&, std::span<const Value>, OwnedKernels&)>;

struct Sample {
  std::string name;  ///< "<primitive>/<what is particular>"; keys its numbers
  std::vector<Shape> inputs;
  std::vector<Shape> weights = {};
  std::vector<Shape> buffers = {};
  Record record;
};

/// The samples of all primitives.
std::vector<Sample> all_samples();

/// The numbers of a sample, f64 and row-major: U(-1, 1), buffers U(0.5, 1.5).
struct Numbers {
  std::vector<Tensor> inputs, weights, buffers;
};
Numbers numbers(const Sample& sample);

/// U(-1, 1) in f64: element e is the first word of block e of the stream of this name.
Tensor uniform(std::string_view name, const Shape& shape);

struct RunOptions {
  DType dtype = DType::f64;
  std::optional<DType> inputs = {};   ///< their type, if it is another one
  bool first_alone = false;           ///< `inputs` is the type of the first input alone
  Layout layout = Layout::row_major;  ///< of the inputs of rank 4
  DType gradient = DType::f64;        ///< to which that of the output is rounded
  bool training = true;
  bool apart = false;  ///< the backward halves in two calls
  Stream stream = {};
};

/// What a run gave, as f64 and row-major.
struct Outcome {
  Tensor output;
  std::vector<Tensor> input_gradients, weight_gradients, statistics;
  std::size_t saved_bytes = 0;  ///< before backward, in the type of the run
};

/// Runs a sample forward and, in training, backward from the gradient "<name>/grad".
Outcome run(const Sample& sample, const Numbers& numbers, const RunOptions& options = {});

/// The scalar whose gradients `run` gives: the sum of output * gradient.
double objective(const Sample& sample, const Numbers& numbers);

/// The largest |a - b| / max(1, |b|).
double distance(const Tensor& a, const Tensor& b);

}  // namespace troupe::testing_ops
