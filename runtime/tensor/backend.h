#pragma once
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "runtime/tensor/allocator.h"
#include "runtime/tensor/dtype.h"

namespace troupe {

class BlockUses;     // runtime/device/block_uses.h
class DeviceStream;  // runtime/device/device_stream.h
struct KernelTable;  // ops/kernels.h

/// All that is particular to one kind of device. A Device points to its backend, so a new
/// backend needs no registration. It lives as long as the process.
struct Backend {
  std::string_view name;  ///< of a device in messages: "cuda"
  /// Whether the CPU can read and write the memory of such a device, as of devices of tests.
  bool in_cpu_memory = false;
  /// The allocator of a device of this kind. It lives as long as the process.
  CachingAllocator& (*allocator)(std::int16_t index);
  /// The kernels for tensors of a type; null where the backend has none.
  const KernelTable* (*kernels)(DType dtype);
  /// Whether the device multiplies numbers of this type (Stream::products).
  bool (*multiplies)(DType products);
  /// Whether it rounds f32 to TF32 where Stream::conv_tf32 or matmul_tf32 allow it.
  bool (*has_tf32)() = [] { return false; };
  /// The working memory, in bytes, that kernels of such a device have requested since the last
  /// call: of a GPU each size once, of the CPU the peak. Kernels of all streams count.
  std::set<std::size_t> (*take_scratch)(std::int16_t index);
  /// The properties of the device that select algorithms and so affect bits, such as "intel with
  /// AVX-512". With another fingerprint, the same run may end with other weights.
  std::string (*fingerprint)();
  /// Opens a stream of a device. Null where all work is done when a call returns, as on the CPU.
  std::shared_ptr<DeviceStream> (*open_stream)(std::int16_t index) = nullptr;
  /// Which streams use the blocks of the device's allocator; null without streams. It lives as long
  /// as the process.
  BlockUses& (*block_uses)(std::int16_t index) = nullptr;
  /// The allocator of pinned memory of the CPU, from which KernelTable::copy to the device needs no
  /// other copy and no wait. It lives as long as the process. Null where no memory is pinned.
  CachingAllocator& (*host_allocator)(std::int16_t index) = nullptr;
};

}  // namespace troupe
