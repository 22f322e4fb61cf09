#include "runtime/device/block_uses.h"

#include <algorithm>
#include <utility>

#include "runtime/tensor/backend.h"

namespace troupe {

void BlockUses::use(const void* block, DeviceStream& stream) {
  std::vector<WorkPtr> before;
  {
    const std::lock_guard lock(mutex_);
    Uses& uses = blocks_[block];
    if (std::ranges::find(uses.streams, &stream, [](const auto& s) { return s.get(); }) ==
        uses.streams.end())
      uses.streams.push_back(stream.shared_from_this());
    // Other streams get what this one writes: they come after it, and so after these too.
    before = std::exchange(uses.before, {});
  }
  for (const WorkPtr& fence : before)
    if (!fence->done()) stream.wait(fence, Awaits::memory);
}

void BlockUses::freed(const void* block) {
  std::vector<std::shared_ptr<DeviceStream>> streams;
  {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(block);
    if (found == blocks_.end()) return;
    streams = std::exchange(found->second.streams, {});
  }
  // The block is in nobody's hands here: its entry can only be found again once it is allocated.
  std::vector<WorkPtr> fences;
  for (const auto& stream : streams) fences.push_back(stream->record());
  const std::lock_guard lock(mutex_);
  std::vector<WorkPtr>& before = blocks_[block].before;
  std::erase_if(before, [](const WorkPtr& fence) { return fence->done(); });
  before.insert(before.end(), fences.begin(), fences.end());
}

void BlockUses::forget(const void* block) {
  const std::lock_guard lock(mutex_);
  blocks_.erase(block);
}

void note_use(const Stream& stream, const Tensor& tensor) {
  if (tensor.defined())
    tensor.device()
        .backend->block_uses(tensor.device().index)
        .use(tensor.storage()->data(), *device_stream(stream));
}

}  // namespace troupe
