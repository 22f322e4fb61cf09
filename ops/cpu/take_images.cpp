#include "ops/reference/take_images.h"

#include "ops/cpu/kernels.h"
#include "ops/cpu/parallel.h"

namespace troupe::cpu {

Tensor take_images(const Stream& stream, const Tensor& x, const Tensor& windows) {
  Tensor y = Tensor::empty(reference::taken_shape(x, windows), DType::u8, stream.device);
  parallel(stream, windows.dim(0), 1, [&](std::int64_t first, std::int64_t last) {
    reference::take_windows(x, windows, first, last, y);
  });
  return y;
}

}  // namespace troupe::cpu
