#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/reference/families.h"
#include "runtime/error.h"

namespace troupe::reference {
namespace {

void check_target(std::int64_t target, std::int64_t sample, std::int64_t classes) {
  if (target >= 0 && target < classes) return;
  throw Error(ErrorCode::bad_shape,
              fmt::format("softmax_cross_entropy: sample {} has class {}, the model has {}", sample,
                          target, classes),
              "set `Model::classes` to the number of classes of the data set");
}

template <class T>
LossOutput softmax_cross_entropy(const Stream&, const Tensor& logits, const Tensor& targets,
                                 double scale, bool with_gradient) {
  const std::int64_t classes = logits.dim(1);
  LossOutput result;
  if (with_gradient)
    result.logits_grad = Tensor::empty(logits.shape(), dtype_of<T>, logits.device());
  result.totals = Tensor::empty({2}, DType::f64, logits.device());
  const auto totals = result.totals.template elements<double>();
  std::ranges::fill(totals, 0.0);
  for (std::int64_t n = 0; n < logits.dim(0); ++n) {
    const T* row = logits.data<T>() + n * classes;
    const std::int64_t target = targets.data<std::int64_t>()[n];
    check_target(target, n, classes);
    const T* largest = std::max_element(row, row + classes);
    const double shift = *largest;  // keeps exp from overflowing
    double sum = 0;
    for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(row[c] - shift);
    totals[0] += std::log(sum) + shift - row[target];
    totals[1] += largest - row == target ? 1.0 : 0.0;
    if (!with_gradient) continue;
    for (std::int64_t c = 0; c < classes; ++c) {
      const double probability = std::exp(row[c] - shift) / sum;
      result.logits_grad.data<T>()[n * classes + c] =
          static_cast<T>(scale * (probability - (c == target ? 1.0 : 0.0)));
    }
  }
  return result;
}

}  // namespace

template <class T>
void fill_loss(KernelTable& table) {
  table.softmax_cross_entropy = softmax_cross_entropy<T>;
}

template void fill_loss<float>(KernelTable&);
template void fill_loss<double>(KernelTable&);

}  // namespace troupe::reference
