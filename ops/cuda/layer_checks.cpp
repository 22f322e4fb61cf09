#include "ops/cuda/layer_checks.h"

#include <fmt/format.h>

#include <string>

#include "ops/cuda/elements.h"
#include "runtime/error.h"

namespace troupe::cuda {
namespace {

std::string describe(const Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  return fmt::format("{} {} in {}", name_of(tensor.dtype()), to_string(tensor.shape()),
                     name_of(tensor.layout()));
}

}  // namespace

Lines lines_of(const char* kernel, const Tensor& x, int axis) {
  if (axis < 0 || axis >= x.rank() || x.layout() != Layout::row_major)
    throw Error(ErrorCode::internal, fmt::format("{}: axis {} of {}", kernel, axis, describe(x)));
  Lines lines{.length = x.shape()[axis]};
  for (int other = 0; other < x.rank(); ++other)
    if (other != axis) (other < axis ? lines.outer : lines.inner) *= x.shape()[other];
  return lines;
}

Channels channels_of(const char* kernel, const Tensor& x) {
  if (x.layout() == Layout::nchw16c)
    throw Error(ErrorCode::unsupported, fmt::format("{}: {} on a GPU", kernel, describe(x)),
                "reorder it to nhwc");
  if (x.rank() != 4 && x.rank() != 2)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: the input is {}; it must be [N, C, H, W] or [N, C]", kernel,
                            to_string(x.shape())));
  const std::int64_t plane = x.rank() == 4 ? x.shape()[2] * x.shape()[3] : 1;
  if (x.layout() == Layout::nhwc) return {x.shape()[0] * plane, x.shape()[1], 1, plane};
  return {x.shape()[0], x.shape()[1], plane, plane};
}

void check_vector(const char* kernel, const char* name, const Tensor& tensor, std::int64_t count,
                  DType dtype) {
  if (tensor.defined() && tensor.dtype() == dtype && tensor.layout() == Layout::row_major &&
      tensor.element_count() == count)
    return;
  throw Error(ErrorCode::bad_shape,
              fmt::format("{}: {} is {}; it must be {} with {} elements", kernel, name,
                          describe(tensor), name_of(dtype), count));
}

void check_matrix(const char* kernel, const Tensor& x) {
  if (x.rank() == 2 && x.dim(1) > 0 && x.layout() == Layout::row_major) return;
  throw Error(ErrorCode::bad_shape,
              fmt::format("{}: {} must be row-major, [N, columns]", kernel, describe(x)));
}

void check_epilogue(const char* kernel, const Tensor& x, const NormEpilogue& epilogue) {
  if (epilogue.residual.defined()) check_alike(kernel, x, epilogue.residual);
  if (!(epilogue.dropout >= 0.0 && static_cast<float>(epilogue.dropout) < 1.0f))
    throw Error(
        ErrorCode::bad_options,
        fmt::format("{}: the probability is {}; it must be in [0, 1)", kernel, epilogue.dropout),
        "check `dropout`");
  if (epilogue.dropout == 0.0 || (epilogue.relu && !epilogue.residual.defined())) return;
  throw Error(ErrorCode::unsupported,
              fmt::format("{}: dropout {} in the epilogue {}", kernel, epilogue.dropout,
                          epilogue.relu ? "with a residual" : "without relu"),
              "use the kernel for dropout alone");
}

void check_mask(const char* kernel, const Tensor& mask, const Shape& q) {
  if (mask.rank() <= q.rank() && mask.layout() == Layout::row_major) return;
  throw Error(ErrorCode::bad_shape, fmt::format("{}: the mask is {}; it does not fit {}", kernel,
                                                describe(mask), to_string(q)));
}

std::int64_t rows_of(const char* kernel, const Tensor& x, std::int64_t features) {
  const std::int64_t count = x.element_count();
  if (x.layout() != Layout::row_major || features < 0 || (features == 0 && count > 0) ||
      (features > 0 && count % features != 0))
    throw Error(ErrorCode::bad_shape, fmt::format("{}: {} does not consist of rows of {} features",
                                                  kernel, describe(x), features));
  return features == 0 ? 0 : count / features;
}

}  // namespace troupe::cuda
