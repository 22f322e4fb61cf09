#pragma once
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/device/device_stream.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

/// Which streams have used each block of a device's memory. The host frees a block and allocates it
/// again while kernels that it gave before still use it: on the same stream, order makes this safe;
/// the first kernel of another stream that gets the block waits for them, on the device. So no
/// block waits to be free, and an allocation need not name a stream. Of devices with streams only
/// (Backend::block_uses). Thread-safe.
class BlockUses {
 public:
  /// A kernel of `stream` is about to use the block.
  void use(const void* block, DeviceStream& stream);
  /// The last tensor in the block has gone.
  void freed(const void* block);
  /// A freed block was given back to the system.
  void forget(const void* block);

 private:
  struct Uses {
    std::vector<WorkPtr> before;  ///< fences of those that used it before it was freed
    std::vector<std::shared_ptr<DeviceStream>> streams;  ///< since it was allocated
  };
  std::mutex mutex_;
  std::unordered_map<const void*, Uses> blocks_;
};

/// A backend with streams calls this before a kernel for each tensor that the kernel reads or
/// writes, its results among them.
void note_use(const Stream& stream, const Tensor& tensor);

}  // namespace troupe
