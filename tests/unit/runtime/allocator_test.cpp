#include "runtime/tensor/allocator.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/device/block_uses.h"
#include "runtime/error.h"
#include "runtime/tensor/backend.h"
#include "runtime/tensor/tensor.h"

namespace troupe {
namespace {

TEST(CachingAllocator, AlignsBlocksToCacheLines) {
  CachingAllocator allocator;
  for (std::size_t bytes : {0, 1, 63, 64, 65, 257, 1000, 4097, 1 << 20}) {
    void* block = allocator.allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0u) << bytes;
    std::memset(block, 0xab, bytes);  // all of it is ours, which asan checks
    allocator.release(block, bytes);
  }
}

TEST(CachingAllocator, HandsAFreedBlockOutAgain) {
  CachingAllocator allocator;
  void* first = allocator.allocate(1000);
  allocator.release(first, 1000);
  EXPECT_EQ(allocator.allocate(1010), first) << "1000 and 1010 bytes are of one class";
  EXPECT_EQ(allocator.counters().allocations, 2u);
  EXPECT_EQ(allocator.counters().reused, 1u);
  allocator.release(first, 1010);
}

TEST(CachingAllocator, KeepsBlocksOfOtherSizesApart) {
  CachingAllocator allocator;
  void* small = allocator.allocate(300);
  allocator.release(small, 300);
  void* large = allocator.allocate(3000);
  EXPECT_NE(large, small);
  EXPECT_EQ(allocator.counters().reused, 0u);
  allocator.release(large, 3000);
}

TEST(CachingAllocator, CountsWhatIsInUseAndWhatIsCached) {
  CachingAllocator allocator;
  void* a = allocator.allocate(1024);
  void* b = allocator.allocate(4096);
  EXPECT_EQ(allocator.counters().in_use_bytes, 5120u);
  EXPECT_EQ(allocator.counters().cached_bytes, 0u);
  allocator.release(a, 1024);
  EXPECT_EQ(allocator.counters().in_use_bytes, 4096u);
  EXPECT_EQ(allocator.counters().cached_bytes, 1024u);
  EXPECT_EQ(allocator.counters().peak_bytes, 5120u);
  allocator.release(b, 4096);
  EXPECT_EQ(allocator.counters().in_use_bytes, 0u);
  EXPECT_EQ(allocator.counters().cached_bytes, 5120u);
}

TEST(CachingAllocator, ThePeakStartsAgainAtWhatIsInUse) {
  CachingAllocator allocator;
  void* a = allocator.allocate(1024);
  void* b = allocator.allocate(4096);
  allocator.release(b, 4096);
  allocator.reset_peak();
  EXPECT_EQ(allocator.counters().peak_bytes, 1024u);
  allocator.release(a, 1024);
}

TEST(CachingAllocator, TrimGivesCachedBlocksBack) {
  CachingAllocator allocator;
  void* kept = allocator.allocate(512);
  allocator.release(allocator.allocate(1 << 16), 1 << 16);
  allocator.trim();
  EXPECT_EQ(allocator.counters().cached_bytes, 0u);
  EXPECT_EQ(allocator.counters().in_use_bytes, 512u);
  std::memset(kept, 1, 512);  // not given back: still in use
  allocator.release(kept, 512);
}

TEST(CachingAllocator, WastesAtMostAQuarterOfABlock) {
  CachingAllocator allocator;
  for (std::size_t bytes = 257; bytes < 5'000'000; bytes = bytes * 9 / 8 + 1) {
    void* block = allocator.allocate(bytes);
    const std::size_t given = allocator.counters().in_use_bytes;
    EXPECT_GE(given, bytes);
    EXPECT_LE(given, bytes + bytes / 4 + 1) << bytes;
    allocator.release(block, bytes);
    allocator.trim();
  }
}

TEST(CachingAllocator, ReportsTheSizesWhenMemoryIsOut) {
  CachingAllocator allocator;
  constexpr std::size_t mib = 1 << 20;
  void* block = allocator.allocate(mib);
  for (const auto& [bytes, text] :
       {std::pair{std::size_t{1} << 60, "1073741824.0 GiB requested, 1.0 MiB in use"},
        std::pair{std::numeric_limits<std::size_t>::max(), "17179869184.0 GiB requested"}}) {
    try {
      allocator.allocate(bytes);
      FAIL() << bytes << " bytes were allocated";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
      EXPECT_NE(error.message().find(text), std::string::npos) << error.message();
      EXPECT_NE(error.remedy().find("make the model smaller"), std::string::npos)
          << error.remedy() << ": a batch of one sample needs the weights as well";
    }
  }
  EXPECT_EQ(allocator.counters().in_use_bytes, mib) << "what was not had is not in use";
  EXPECT_EQ(allocator.counters().peak_bytes, mib) << "nor part of the peak";
  allocator.release(block, mib);
}

TEST(CachingAllocator, GivesCachedBlocksUpBeforeItRunsOut) {
  // Not forced here (that takes all memory of the machine), but the counters tell that an
  // allocation that fails has given the cache back first.
  CachingAllocator allocator;
  allocator.release(allocator.allocate(1 << 16), 1 << 16);
  EXPECT_THROW(allocator.allocate(std::size_t{1} << 60), Error);
  EXPECT_EQ(allocator.counters().cached_bytes, 0u);
}

TEST(CachingAllocator, KeepsTheBlocksWhoseMemoryIsNotNeeded) {
  constexpr std::size_t mib = 1 << 20, all = 10 * mib;
  std::size_t taken = 0;
  CachingAllocator allocator({}, {.allocate = [&](std::size_t bytes) -> void* {
                                    if (taken + bytes > all) return nullptr;
                                    taken += bytes;
                                    return ::operator new(bytes);
                                  },
                                  .release =
                                      [&](void* block, std::size_t bytes) {
                                        taken -= bytes;
                                        ::operator delete(block);
                                      }});
  std::vector<std::pair<void*, std::size_t>> blocks;
  for (const std::size_t bytes : {mib, 4 * mib, mib, 4 * mib})
    blocks.emplace_back(allocator.allocate(bytes), bytes);
  for (const auto& [block, bytes] : blocks) allocator.release(block, bytes);
  void* block = allocator.allocate(3 * mib);
  EXPECT_EQ(allocator.counters().cached_bytes, 6 * mib) << "one of the largest made room";
  allocator.release(block, 3 * mib);
  block = allocator.allocate(all);
  EXPECT_EQ(allocator.counters().cached_bytes, 0u);
  allocator.release(block, all);
}

// Of two threads, one gives the only cached block back, and takes its time for it.
TEST(CachingAllocator, FindsTheMemoryThatAnotherThreadHasGivenBack) {
  constexpr std::size_t mib = 1 << 20, all = 10 * mib;
  std::atomic<std::size_t> taken = 0;
  CachingAllocator allocator({}, {.allocate = [&](std::size_t bytes) -> void* {
                                    if (taken.fetch_add(bytes) + bytes <= all)
                                      return ::operator new(bytes);
                                    taken -= bytes;
                                    return nullptr;
                                  },
                                  .release =
                                      [&](void* block, std::size_t bytes) {
                                        std::this_thread::sleep_for(std::chrono::milliseconds(5));
                                        taken -= bytes;
                                        ::operator delete(block);
                                      }});
  for (int round = 0; round < 10; ++round) {
    allocator.release(allocator.allocate(all), all);
    std::vector<std::jthread> threads;
    for (int i = 0; i < 2; ++i)
      threads.emplace_back([&] {
        void* block = nullptr;
        EXPECT_NO_THROW(block = allocator.allocate(2 * mib));
        if (block) allocator.release(block, 2 * mib);
      });
  }
}

TEST(CachingAllocator, MayBeUsedFromManyThreads) {
  CachingAllocator allocator;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&allocator, t] {
      for (int i = 0; i < 2000; ++i) {
        const std::size_t bytes = std::size_t{256} << (i % 4);
        auto* block = static_cast<int*>(allocator.allocate(bytes));
        block[0] = t;
        ASSERT_EQ(block[0], t);  // nobody else has this block
        allocator.release(block, bytes);
      }
    });
  for (std::thread& thread : threads) thread.join();
  const AllocatorCounters counters = allocator.counters();
  EXPECT_EQ(counters.allocations, 8000u);
  EXPECT_EQ(counters.in_use_bytes, 0u);
}

TEST(CachingAllocator, OfADeviceIsThatOfItsBackend) {
  EXPECT_EQ(&CachingAllocator::of({}), &CachingAllocator::of({}));
  static std::array<CachingAllocator, 2> allocators;
  static constexpr Backend backend{.allocator = [](std::int16_t index) -> CachingAllocator& {
    return allocators.at(static_cast<std::size_t>(index));
  }};
  EXPECT_EQ(&CachingAllocator::of({&backend, 1}), &allocators[1]);
}

class CountingStream : public DeviceStream {
 public:
  using DeviceStream::DeviceStream;
  WorkPtr fence() override { return std::make_shared<Work>(); }
  void wait(const WorkPtr&, Awaits) override { ++waits; }
  void synchronize() override {}
  int waits = 0;
};

/// A device whose system hands each block out again at once, to a thread that uses it on `stream`.
struct BusyDevice {
  static BlockUses& uses(std::int16_t = 0) {
    static auto* uses = new BlockUses;
    return *uses;
  }
  static CountingStream& stream() {
    static auto* stream = new std::shared_ptr(std::make_shared<CountingStream>(Device::cpu()));
    return **stream;
  }
  static void release(void* block, std::size_t) {
    uses().use(block, stream());
    ::operator delete(block);
  }
  static constexpr Backend backend{.block_uses = uses};
  inline static const DeviceMemory memory{
      .allocate = [](std::size_t bytes) { return ::operator new(bytes); }, .release = release};
};

TEST(CachingAllocator, ForgetsTheUsesOfABlockBeforeOthersCanHaveIt) {
  CachingAllocator allocator({&BusyDevice::backend, 0}, BusyDevice::memory);
  void* block = allocator.allocate(300);
  allocator.release(block, 300);
  allocator.trim();
  BusyDevice::uses().freed(block);  // by that thread
  const auto next = std::make_shared<CountingStream>(Device::cpu());
  BusyDevice::uses().use(block, *next);
  EXPECT_EQ(next->waits, 1) << "its use was forgotten";
}

/// Cannot wait the first time.
class FailingStream final : public CountingStream {
 public:
  using CountingStream::CountingStream;
  void wait(const WorkPtr& fence, Awaits what) override {
    if (!std::exchange(failed_, true)) throw Error(ErrorCode::unsupported, "no wait");
    CountingStream::wait(fence, what);
  }

 private:
  bool failed_ = false;
};

TEST(BlockUses, LoseNoWaitToAnError) {
  BlockUses uses;
  const auto first = std::make_shared<CountingStream>(Device::cpu()),
             second = std::make_shared<CountingStream>(Device::cpu());
  const auto next = std::make_shared<FailingStream>(Device::cpu());
  int block = 0;
  uses.use(&block, *first);
  uses.use(&block, *second);
  uses.freed(&block);
  EXPECT_THROW(uses.use(&block, *next), Error);
  uses.use(&block, *next);
  EXPECT_EQ(next->waits, 2);
}

TEST(AllocationScope, ServesTheTensorsThatItsThreadMakesMeanwhile) {
  CachingAllocator own;
  const auto allocator_of = [] {
    return Tensor::empty({3}, DType::f32, Device::cpu()).storage()->allocator();
  };
  const CachingAllocator* const usual = &CachingAllocator::of(Device::cpu());
  {
    const AllocationScope scope(own);
    EXPECT_EQ(allocator_of(), &own);
    std::thread([&] { EXPECT_EQ(allocator_of(), usual); }).join();
    {
      const LastingScope lasting;
      EXPECT_EQ(allocator_of(), usual);
    }
    EXPECT_EQ(allocator_of(), &own);
  }
  EXPECT_EQ(allocator_of(), usual);
  EXPECT_EQ(own.counters().in_use_bytes, 0u);
}

TEST(LastingScope, CountsWhatItsThreadAsksForMeanwhile) {
  CachingAllocator allocator;
  const auto ask = [&] { allocator.release(allocator.allocate(300), 300); };
  ask();
  EXPECT_EQ(allocator.counters().lasting_bytes, 0u);
  {
    const LastingScope outer;
    { const LastingScope inner; }
    ask();
    std::thread(ask).join();
  }
  ask();
  EXPECT_EQ(allocator.counters().lasting_bytes, 320u) << "of one block";
}

/// A device on which the test's own streams do nothing.
struct IdleDevice {
  static BlockUses& uses(std::int16_t = 0) {
    static auto* uses = new BlockUses;
    return *uses;
  }
  static constexpr Backend backend{.block_uses = uses};
  inline static const DeviceMemory memory{
      .allocate = [](std::size_t bytes) { return ::operator new(bytes); },
      .release = [](void* block, std::size_t) { ::operator delete(block); }};
};

TEST(NoteUse, WaitsForAllFormerUsesOfABlockOnceAlsoAfterAWaitThatFailed) {
  const Device device{&IdleDevice::backend, 0};
  CachingAllocator allocator(device, IdleDevice::memory);
  const AllocationScope scope(allocator);
  const auto stream = [&](DeviceStream& one) { return Stream{.device = device, .handle = &one}; };
  const auto first = std::make_shared<CountingStream>(device),
             second = std::make_shared<CountingStream>(device);
  const auto next = std::make_shared<FailingStream>(device);
  Tensor tensor = Tensor::empty({7}, DType::f32, device);
  for (CountingStream* user : {first.get(), second.get(), first.get()})
    note_use(stream(*user), tensor);
  tensor = {};
  tensor = Tensor::empty({7}, DType::f32, device);
  EXPECT_THROW(note_use(stream(*next), tensor), Error);
  note_use(stream(*next), tensor);
  EXPECT_EQ(next->waits, 2);
  note_use(stream(*first), tensor);
  note_use(stream(*next), tensor);
  EXPECT_EQ(next->waits, 2) << "noted already";
}

TEST(CachingAllocator, GivesAStreamTheBlockThatItUsedLast) {
  CachingAllocator allocator({&IdleDevice::backend, 0}, IdleDevice::memory);
  const auto first = std::make_shared<CountingStream>(Device::cpu());
  const auto second = std::make_shared<CountingStream>(Device::cpu());
  BlockUses& uses = IdleDevice::uses();
  std::array<void*, 5> blocks{};
  for (void*& block : blocks) block = allocator.allocate(300);
  for (std::size_t i = 0; i < 4; ++i) uses.use(blocks[i], i < 2 ? *first : *second);
  for (void* block : {blocks[0], blocks[2], blocks[4], blocks[3], blocks[1]})
    allocator.release(block, 300);
  const auto next = [&](DeviceStream& stream) {
    int other = 0;
    uses.use(&other, stream);  // the kernel before
    uses.forget(&other);
    void* block = allocator.allocate(300);
    uses.use(block, stream);
    return block;
  };
  EXPECT_EQ(next(*second), blocks[3]);
  EXPECT_EQ(next(*first), blocks[1]);
  EXPECT_EQ(next(*first), blocks[0]);
  EXPECT_EQ(next(*first), blocks[2]) << "that was freed first";
  EXPECT_EQ(next(*first), blocks[4]);
  EXPECT_EQ(first->waits, 1);
  EXPECT_EQ(second->waits, 0);
  for (void* block : blocks) allocator.release(block, 300);
}

/// Gives blocks back while others use the allocator.
struct SharedDevice {
  static inline CachingAllocator* allocator = nullptr;
  static inline int released = 0;
  inline static const DeviceMemory memory{
      .allocate = [](std::size_t bytes) { return ::operator new(bytes); },
      .release =
          [](void* block, std::size_t) {
            if (allocator)
              std::thread([] { allocator->release(allocator->allocate(5000), 5000); }).join();
            ::operator delete(block);
            ++released;
          }};
};

TEST(CachingAllocator, LetsOthersGoOnWhileItGivesBlocksBack) {
  CachingAllocator allocator({}, SharedDevice::memory);
  SharedDevice::allocator = &allocator;
  void *first = allocator.allocate(300), *second = allocator.allocate(300);
  allocator.release(first, 300);
  allocator.release(second, 300);
  allocator.trim();
  EXPECT_EQ(SharedDevice::released, 2);
  EXPECT_EQ(allocator.counters().cached_bytes, 5120u) << "what the others have freed meanwhile";
  SharedDevice::allocator = nullptr;
}

}  // namespace
}  // namespace troupe
