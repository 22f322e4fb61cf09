#include "ops/cpu/parallel.h"

#include <omp.h>

#ifdef __SANITIZE_THREAD__
#include <atomic>
#endif

namespace troupe::cpu::detail {
namespace {

#ifdef __SANITIZE_THREAD__
/// libgomp, built without the sanitizer, orders a team by futexes that it does not see. This tells
/// it: what was before the loop happened before its ranges, and these before what follows.
class SeenOrder {
 public:
  SeenOrder() { begun_.store(1, std::memory_order_release); }
  ~SeenOrder() { (void)ended_.load(std::memory_order_acquire); }
  void begin() { (void)begun_.load(std::memory_order_acquire); }
  void end() { ended_.fetch_add(1, std::memory_order_release); }

 private:
  std::atomic<int> begun_{0}, ended_{0};
};
#else
struct SeenOrder {
  void begin() {}
  void end() {}
};
#endif

}  // namespace

void parallel(int threads, std::int64_t count, const void* body, RangeFunction call) {
  SeenOrder order;
#pragma omp parallel num_threads(threads)
  {
    order.begin();
    // The team may be smaller than asked for.
    const std::int64_t width = omp_get_num_threads();
    const std::int64_t rank = omp_get_thread_num();
    const std::int64_t begin = count * rank / width, end = count * (rank + 1) / width;
    if (begin < end) call(body, begin, end);
    order.end();
  }
}

}  // namespace troupe::cpu::detail
