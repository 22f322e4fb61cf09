#include "ops/primitives/convolution2d.h"

#include <fmt/format.h>

#include "ops/primitives/checks.h"
#include "runtime/error.h"

namespace troupe::primitives {

Tensor Convolution2d::forward(const Pass& pass, const Tensor& x) {
  check_images(name, x, options.in_channels);
  if (x.dim(2) + 2 * options.padding_h < reach_h(options) ||
      x.dim(3) + 2 * options.padding_w < reach_w(options))
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: a kernel of {}x{} is larger than the image {} with padding {}x{}",
                            name, reach_h(options), reach_w(options), to_string(x.shape()),
                            options.padding_h, options.padding_w),
                "use larger images or more padding");
  return WeightedLayer::forward(pass, x);
}

}  // namespace troupe::primitives
