#include "ops/cuda/library_error.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <mutex>
#include <set>

#include "ops/cuda/error.h"
#include "ops/cuda/stream.h"
#include "runtime/bytes_text.h"
#include "runtime/error.h"
#include "runtime/print.h"

namespace troupe::cuda {
namespace {

/// With less free memory not even a library's kernels can be loaded.
constexpr std::size_t little_memory = std::size_t{64} << 20;

}  // namespace

void throw_error(const LibraryFailure& failure) {
  cudaGetLastError();  // that of the library, which would be the next launch's
  std::size_t free_bytes = 0, all_bytes = 0;
  const std::string operation =
      fmt::format("{} ({} answered: {})", failure.operation, failure.library, failure.reason);
  const cudaError_t context = cudaMemGetInfo(&free_bytes, &all_bytes);
  const bool no_device = context == cudaErrorInsufficientDriver || context == cudaErrorNoDevice;
  if (!no_device) check(context, operation.c_str());  // plans for described devices need none
  const std::string what =
      fmt::format("{} could not {}: {}", failure.library, failure.operation, failure.reason);
  const std::string graphs = captures_here() ? "set `cuda_graphs` to false, or " : "";
  if (failure.out_of_memory || (!no_device && free_bytes < little_memory))
    throw out_of_device_memory(
        fmt::format("{}, {} of {} free", what, bytes_text(free_bytes), bytes_text(all_bytes)),
        graphs + "raise `micro_batches`, lower `batch_size`, or choose a device with more memory");
  throw Error(
      ErrorCode::unsupported, what,
      fmt::format("{}install a {} that matches the driver and the CUDA toolkit of this build",
                  graphs, failure.library));
}

void warn_once(const std::string& text) {
  static std::mutex mutex;
  static auto* told = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (told->insert(text).second) print_warning("{}", text);
}

}  // namespace troupe::cuda
