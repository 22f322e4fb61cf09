#include "ops/cpu/parallel.h"

#include <omp.h>

namespace troupe::cpu::detail {

void parallel(int threads, std::int64_t count, const void* body, RangeFunction call) {
#pragma omp parallel num_threads(threads)
  {
    // The team may be smaller than asked for.
    const std::int64_t width = omp_get_num_threads();
    const std::int64_t rank = omp_get_thread_num();
    const std::int64_t begin = count * rank / width, end = count * (rank + 1) / width;
    if (begin < end) call(body, begin, end);
  }
}

}  // namespace troupe::cpu::detail
