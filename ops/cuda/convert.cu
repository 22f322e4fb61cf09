#include "ops/cuda/convert.h"
#include "ops/cuda/elements.h"
#include "ops/cuda/launch.h"

namespace troupe::cuda {
namespace {

template <class From, class To>
__global__ void convert_kernel(const From* from, To* to, std::int64_t count) {
  for (std::int64_t i = first_index(); i < count; i += grid_threads())
    to[i] = static_cast<To>(from[i]);
}

}  // namespace

void convert(const Stream& stream, const Tensor& from, Tensor& to) {
  const std::int64_t count = from.element_count();
  if (count == 0) return;
  visit_float(from.dtype(), [&]<class From>(From) {
    visit_float(to.dtype(), [&]<class To>(To) {
      Launch(stream, blocks_for(count), block_threads)(
          convert_kernel<From, To>, input<From>(stream, from), output<To>(stream, to), count);
    });
  });
}

}  // namespace troupe::cuda
