#include "ops/primitives/linear.h"

#include <fmt/format.h>

#include "runtime/error.h"

namespace troupe::primitives {

Tensor Linear::forward(const Pass& pass, const Tensor& x) {
  if (x.rank() != 2 || x.dim(1) != options.in_features)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: the input is {}, the layer takes (N, {})", name,
                            to_string(x.shape()), options.in_features),
                "check in_features against the layer before, and flatten images first");
  return WeightedLayer::forward(pass, x);
}

}  // namespace troupe::primitives
