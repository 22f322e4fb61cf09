#include "ops/reference/reorder.h"

#include <algorithm>

#include "ops/reference/kernels.h"

namespace troupe::reference {

std::int64_t element_offset(Layout layout, const Shape& shape, std::int64_t n, std::int64_t c,
                            std::int64_t h, std::int64_t w) {
  const std::int64_t channels = shape[1], height = shape[2], width = shape[3];
  switch (layout) {
    case Layout::nhwc:
      return ((n * height + h) * width + w) * channels + c;
    case Layout::nchw16c:
      return (((n * (channels / 16) + c / 16) * height + h) * width + w) * 16 + c % 16;
    case Layout::row_major:
      break;
  }
  return ((n * channels + c) * height + h) * width + w;
}

void reorder(const Stream&, const Tensor& from, Tensor& to) {
  const double* source = from.data<double>();
  auto* target = to.data<double>();
  if (from.layout() == to.layout()) {
    std::copy_n(source, from.element_count(), target);
    return;
  }
  const Shape& shape = from.shape();
  for (std::int64_t n = 0; n < shape[0]; ++n)
    for (std::int64_t c = 0; c < shape[1]; ++c)
      for (std::int64_t h = 0; h < shape[2]; ++h)
        for (std::int64_t w = 0; w < shape[3]; ++w)
          target[element_offset(to.layout(), shape, n, c, h, w)] =
              source[element_offset(from.layout(), shape, n, c, h, w)];
}

Tensor in_layout(const Tensor& tensor, Layout layout) {
  if (tensor.layout() == layout) return tensor;
  Tensor result = Tensor::empty(tensor.shape(), tensor.dtype(), tensor.device(), layout);
  reorder({}, tensor, result);
  return result;
}

}  // namespace troupe::reference
