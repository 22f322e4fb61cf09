#include <array>

#include "actors/messages.h"

namespace troupe {

Score Score::of(const Numbers& numbers) {
  const std::array<double, 2> totals{numbers.loss_sum,
                                     static_cast<double>(numbers.correct.value_or(0))};
  return {.totals = Tensor::from<double>({2}, totals),
          .partners = {},
          .has_accuracy = numbers.correct.has_value()};
}

// Of mixed samples: the loss is linear in the targets. A sample is correct if its larger share is.
Score::Numbers Score::numbers() const {
  if (!totals.defined()) return {};
  const double rest = 1 - share;
  const double* own = totals.data<double>();
  const double* other = partners.defined() ? partners.data<double>() : nullptr;
  const double correct = other && share < rest ? other[1] : own[1];
  return {
      .loss_sum = other ? share * own[0] + rest * other[0] : own[0],
      .correct = has_accuracy ? std::optional(static_cast<std::int64_t>(correct)) : std::nullopt};
}

}  // namespace troupe
