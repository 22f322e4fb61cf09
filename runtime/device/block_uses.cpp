#include "runtime/device/block_uses.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/error.h"
#include "runtime/tensor/backend.h"

namespace troupe {
namespace {

// What it chooses affects waits, but no results.
thread_local const DeviceStream* last_stream = nullptr;

}  // namespace

void BlockUses::use(const void* block, DeviceStream& stream) {
  last_stream = &stream;
  std::vector<Before> before;
  {
    const std::lock_guard lock(mutex_);
    Uses& uses = blocks_[block];
    if (std::ranges::find(uses.streams, &stream, [](const auto& s) { return s.get(); }) ==
        uses.streams.end())
      uses.streams.push_back(stream.shared_from_this());
    // Other streams get what this one writes: they come after it, and so after these too.
    before = std::exchange(uses.before, {});
  }
  auto next = before.begin();
  try {
    for (; next != before.end(); ++next) {
      if (next->stream.get() == &stream) continue;
      if (const WorkPtr fence = next->stream->fence_after(next->mark))
        stream.wait(fence, Awaits::memory);
    }
  } catch (...) {  // the next use of the block has the waits that are left
    const std::lock_guard lock(mutex_);
    std::vector<Before>& left = blocks_[block].before;
    left.insert(left.end(), next, before.end());
    throw;
  }
}

const DeviceStream* BlockUses::freed(const void* block) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(block);
  if (found == blocks_.end()) return nullptr;
  Uses& uses = found->second;
  for (const StreamPtr& stream : uses.streams) uses.before.push_back({stream, stream->mark()});
  uses.streams.clear();
  return uses.before.size() == 1 ? uses.before.front().stream.get() : nullptr;
}

void BlockUses::forget(const void* block) {
  std::unordered_map<const void*, Uses>::node_type uses;  // ends after the lock, as do its streams
  const std::lock_guard lock(mutex_);
  uses = blocks_.extract(block);
}

const DeviceStream* BlockUses::likely_stream() { return last_stream; }

void note_use(const Stream& stream, const Tensor& tensor) {
  if (!tensor.defined()) return;
  const Storage& storage = *tensor.storage();
  DeviceStream& user = *device_stream(stream);
  // Noted once, the use stands until the block is freed with its storage.
  if (storage.last_user().load(std::memory_order_relaxed) == &user) {
    last_stream = &user;
    return;
  }
  const Device device = storage.device();
  if (device == Device::cpu())
    throw Error(
        ErrorCode::unsupported,
        fmt::format("a kernel on {} is given a tensor of the CPU", to_string(stream.device)),
        "copy the tensor with on_device()");
  device.backend->block_uses(device.index).use(storage.data(), user);
  storage.last_user().store(&user, std::memory_order_relaxed);
}

}  // namespace troupe
