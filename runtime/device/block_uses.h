#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/device/device_stream.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

/// Records the streams that have used each block of a device's memory. The host may free a block
/// and allocate it again while earlier kernels still use it. If the next kernel is on the same
/// stream, the order of the stream makes this safe. If it is on another stream, that stream first
/// waits for the earlier kernels, on the device. A freed block is available at once, and an
/// allocation need not name a stream. Freeing a block issues no work to the device. A block keeps
/// the streams of its last uses alive. For devices with streams only
/// (Backend::block_uses). Thread-safe.
class BlockUses {
 public:
  /// A kernel of `stream` is about to use the block.
  void use(const void* block, DeviceStream& stream);
  /// The last tensor in the block has gone. Returns the stream that alone has used it; null if
  /// several have, or none.
  const DeviceStream* freed(const void* block);
  /// A freed block is about to be given back to the system.
  void forget(const void* block);
  /// The stream of the last use that this thread has noted: probably that of its next allocation
  /// too, so a good choice among free blocks. To compare only, since it may have gone.
  static const DeviceStream* likely_stream();

 private:
  using StreamPtr = std::shared_ptr<DeviceStream>;
  struct Before {
    StreamPtr stream;
    std::uint64_t mark;  ///< of the stream, when the block was freed
  };
  struct Uses {
    std::vector<Before> before;      ///< it was freed
    std::vector<StreamPtr> streams;  ///< since it was allocated
  };
  std::mutex mutex_;
  std::unordered_map<const void*, Uses> blocks_;
};

/// A backend with streams calls this before a kernel for each tensor that the kernel reads or
/// writes, its results among them. Error{unsupported} if the tensor is the CPU's.
void note_use(const Stream& stream, const Tensor& tensor);

}  // namespace troupe
