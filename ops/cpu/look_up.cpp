#include "ops/reference/look_up.h"

#include "ops/cpu/kernels.h"
#include "ops/cpu/parallel.h"

namespace troupe::cpu {

Tensor look_up(const Stream& stream, const Tensor& x, const Tensor& values, Layout layout) {
  reference::check_look_up(x, values, layout);
  Tensor y = Tensor::empty(x.shape(), values.dtype(), stream.device, layout);
  parallel(stream, x.dim(0), 1, [&](std::int64_t first, std::int64_t last) {
    reference::look_up_images(x, values, first, last, y);
  });
  return y;
}

}  // namespace troupe::cpu
