#include "ops/loss.h"

#include <fmt/format.h>

#include "ops/on_device.h"
#include "runtime/error.h"

namespace troupe {

LossOutput softmax_cross_entropy(const Stream& stream, const Tensor& logits, const Tensor& targets,
                                 double scale, bool with_gradient, double label_smoothing) {
  if (logits.rank() != 2 || logits.dim(1) == 0 || targets.shape() != Shape{logits.dim(0)})
    throw Error(ErrorCode::bad_shape,
                fmt::format("softmax_cross_entropy: logits are {}, targets {}; they must be "
                            "(N, classes) and (N)",
                            to_string(logits.shape()), to_string(targets.shape())),
                "check the model's last layer");
  if (targets.dtype() != DType::i64)
    throw Error(ErrorCode::bad_shape, fmt::format("softmax_cross_entropy: targets are {}, not i64",
                                                  name_of(targets.dtype())));
  return kernels(logits.device(), logits.dtype())
      .softmax_cross_entropy(stream, logits, targets, scale, with_gradient, label_smoothing);
}

LossTotals read_totals(const Stream& stream, const LossOutput& output) {
  const Tensor totals = on_cpu(stream, output.totals);
  return {.loss_sum = totals.data<double>()[0],
          .correct = static_cast<std::int64_t>(totals.data<double>()[1])};
}

}  // namespace troupe
