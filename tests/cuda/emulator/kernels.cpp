#include "cuda_on_cpu.h"
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <unordered_map>
#include <vector>

// Saves what a call must keep, and goes on on another stack.
extern "C" void cuda_on_cpu_switch(void** from, void* to);
asm(R"(.text
.globl cuda_on_cpu_switch
.type cuda_on_cpu_switch,@function
cuda_on_cpu_switch:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
.size cuda_on_cpu_switch,.-cuda_on_cpu_switch)");

namespace cuda_on_cpu {
thread_local Thread* self = nullptr;
bool (*before)(std::uint32_t, std::uint32_t) = nullptr;
Options& options() {
  static Options o;
  return o;
}
namespace {
std::atomic<int> error_count{0};
enum class Wait : std::uint8_t { none, block, warp, ended };

struct Fiber;
struct Warp {
  std::uint64_t slots[2][32] = {};
  unsigned parity = 0, arrived = 0, epoch = 0;
};
struct Block {
  unsigned count = 0, live = 0, at_barrier = 0, epoch = 0;
  int sum = 0, last_sum = 0;
  std::vector<Thread> threads;
  std::vector<Wait> wait;
  std::vector<unsigned> masks;
  std::vector<Fiber*> fibers;
  std::vector<Warp> warps;
  std::vector<unsigned> live_lanes;
  std::vector<std::uint64_t> shared;
};
struct Fiber {
  static constexpr std::size_t size = 64 << 10;
  char* stack = nullptr;
  void* sp = nullptr;
};
struct Engine {
  std::vector<Fiber*> idle;
  Fiber* running = nullptr;
  void* main_sp = nullptr;
  Block block;
  const std::function<void()>* kernel = nullptr;
  const char* name = "";
  std::vector<unsigned> order;
  std::size_t next = 0;
  std::uint32_t op = 0, flat_block = 0;
};
thread_local Engine engine;

void to_main() { cuda_on_cpu_switch(&engine.running->sp, engine.main_sp); }

// A thread that never waits leaves its fiber to the next one: no switch at all.
void fiber_main() {
  Engine& e = engine;
  for (;;) {
    while (e.next < e.order.size()) {
      const unsigned t = e.order[e.next++];
      Block& b = e.block;
      b.fibers[t] = e.running;
      self = &b.threads[t];
      (*e.kernel)();
      b.wait[t] = Wait::ended;
      --b.live;
      b.live_lanes[t / 32] &= ~(1u << (t % 32));
    }
    Fiber* done = e.running;
    e.idle.push_back(done);
    to_main();
  }
}
Fiber* fiber() {
  Engine& e = engine;
  if (e.idle.empty()) {
    auto* f = new Fiber;
    f->stack = static_cast<char*>(
        mmap(nullptr, Fiber::size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    void** top = reinterpret_cast<void**>(f->stack + Fiber::size) - 2;  // as after a call: 8 off 16
    *top = reinterpret_cast<void*>(&fiber_main);
    f->sp = top - 6;
    e.idle.push_back(f);
  }
  Fiber* f = e.idle.back();
  e.idle.pop_back();
  return f;
}
void resume(Fiber* f, Thread* thread) {
  engine.running = f;
  self = thread;
  cuda_on_cpu_switch(&engine.main_sp, f->sp);
}
bool warp_complete(Block& b, unsigned t) {  // all of its mask have come
  const unsigned mask = b.masks[t];
  return (b.warps[t / 32].arrived & mask) == mask;
}
void run_block(Engine& e, std::mt19937& random) {
  Block& b = e.block;
  for (unsigned t = 0; t < b.count; ++t) b.wait[t] = Wait::none;
  b.live = b.count;
  b.at_barrier = 0;
  b.epoch = 0;
  b.sum = 0;
  for (auto& w : b.warps) w.arrived = w.parity = w.epoch = 0;
  for (unsigned w = 0; w < b.warps.size(); ++w)
    b.live_lanes[w] = b.count - w * 32 >= 32 ? ~0u : (1u << (b.count - w * 32)) - 1;
  std::fill(b.shared.begin(), b.shared.end(), 0xfff7fff7fff7fff7ull);  // NaNs
  if (options().seed) std::shuffle(e.order.begin(), e.order.end(), random);
  e.next = 0;
  while (e.next < e.order.size()) resume(fiber(), nullptr);
  while (b.live > 0) {
    bool moved = false;
    if (b.at_barrier == b.live && b.at_barrier > 0) {
      b.at_barrier = 0;
      ++b.epoch;
      b.last_sum = b.sum;
      b.sum = 0;
      for (unsigned t = 0; t < b.count; ++t)
        if (b.wait[t] == Wait::block) b.wait[t] = Wait::none;
    }
    for (const unsigned t : e.order) {
      if (b.wait[t] == Wait::warp && warp_complete(b, t)) {  // the whole mask goes on
        Warp& w = b.warps[t / 32];
        const unsigned mask = b.masks[t];
        for (unsigned l = 0; l < 32; ++l)
          if (mask >> l & 1) b.wait[t / 32 * 32 + l] = Wait::none;
        w.arrived &= ~mask;
        w.parity ^= 1;
        ++w.epoch;
      }
      if (b.wait[t] != Wait::none) continue;
      moved = true;
      resume(b.fibers[t], &b.threads[t]);
    }
    if (!moved && !(b.at_barrier == b.live && b.live > 0)) {
      report(
          "%s: block %u stands still: %u threads live, %u at __syncthreads, the others wait in a "
          "warp",
          e.name, e.flat_block, b.live, b.at_barrier);
      std::abort();
    }
  }
}

// --- the checker ---------------------------------------------------------------------------------
struct Who {  // an access: by which thread of which operation, between which barriers
  std::uint32_t op = 0, block = 0;
  std::uint16_t thread = 0, epoch = 0, warp_epoch = 0;
  bool atomic = false;
};
struct Cell {
  Who write, read[2];
};
struct Region {
  std::size_t bytes;
  std::unique_ptr<Cell[]> cells;
};
std::map<std::uintptr_t, Region> regions;
thread_local std::unordered_map<std::uintptr_t, Cell> shared_cells;  // of the blocks of this thread
std::recursive_mutex checking;
thread_local bool inside = false;

bool races(const Who& a, const Who& b, bool in_shared) {
  if (a.op == 0 || (a.atomic && b.atomic)) return false;
  if (a.op != b.op) return !in_shared && before && !before(a.op, b.op);
  if (a.block != b.block) return !in_shared;
  if (a.thread == b.thread || a.epoch != b.epoch) return false;
  return a.thread / 32 != b.thread / 32 || a.warp_epoch == b.warp_epoch;
}
void complain(const char* what, const void* at, const Who& a, const Who& b) {
  report("%s: %s at %p: operation %u block %u thread %u, then operation %u block %u thread %u",
         engine.name, what, at, a.op, a.block, a.thread, b.op, b.block, b.thread);
}
void check(const void* address, std::size_t bytes, bool write, bool atomic, bool device) {
  if (inside) return;
  Who now;
  now.op = engine.op;
  now.atomic = atomic;
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (device) {
    if (!self) return;
    const Fiber* f = engine.running;
    if (at - reinterpret_cast<std::uintptr_t>(f->stack) < Fiber::size) return;
    now.block = engine.flat_block;
    now.thread = std::uint16_t(self->flat);
    now.epoch = std::uint16_t(engine.block.epoch);
    now.warp_epoch = std::uint16_t(engine.block.warps[self->warp].epoch);
  }
  const std::lock_guard lock(checking);
  inside = true;
  auto found = regions.upper_bound(at);
  Region* region = nullptr;
  std::uintptr_t base = 0;
  if (found != regions.begin()) {
    --found;
    // Up to 4 KiB behind a block still counts as meant for it.
    if (at < found->first + found->second.bytes + 4096) {
      region = &found->second;
      base = found->first;
    }
  }
  if (region && at + bytes > base + region->bytes) {
    report(
        "%s: %s of %zu bytes, %zu beyond the end of a block of %zu (operation %u, block %u, thread "
        "%u)",
        engine.name, write ? "write" : "read", bytes, at + bytes - base - region->bytes,
        region->bytes, now.op, now.block, now.thread);
    inside = false;
    return;
  }
  for (std::size_t i = 0; i < bytes; ++i) {
    Cell& cell = region ? region->cells[at + i - base] : shared_cells[at + i];
    const bool in_shared = !region;
    bool bad = races(cell.write, now, in_shared);
    if (bad)
      complain(write ? "two writes" : "a read that may come before or after a write", address,
               cell.write, now);
    if (write)
      for (const Who& r : cell.read)
        if (!bad && races(r, now, in_shared)) {
          complain("a write of what may not have been read yet", address, r, now);
          bad = true;
        }
    if (!write && region && cell.write.op == 0 && options().check_init) {
      report("%s: a read of what nobody wrote at %p (operation %u, block %u, thread %u)",
             engine.name, address, now.op, now.block, now.thread);
      bad = true;
    }
    if (write) {
      cell.write = now;
      cell.read[0] = cell.read[1] = {};
    } else if (cell.read[0].op != now.op || cell.read[0].thread != now.thread ||
               cell.read[0].block != now.block) {
      cell.read[1] = cell.read[0];
      cell.read[0] = now;
    } else
      cell.read[0] = now;
    if (bad) break;
  }
  inside = false;
}
}  // namespace

void report(const char* format, ...) {
  if (++error_count > 20) return;
  va_list args;
  va_start(args, format);
  std::fputs("cuda_on_cpu: ", stderr);
  std::vfprintf(stderr, format, args);
  std::fputc('\n', stderr);
  va_end(args);
}
int errors() { return error_count; }
void memory_begins(void* block, std::size_t bytes) {
  const std::lock_guard lock(checking);
  regions[reinterpret_cast<std::uintptr_t>(block)] = {bytes, std::make_unique<Cell[]>(bytes)};
}
void memory_ends(void* block) {
  const std::lock_guard lock(checking);
  regions.erase(reinterpret_cast<std::uintptr_t>(block));
}
void begin_operation(std::uint32_t op) {
  engine.op = op;
  engine.name = "copy";
  shared_cells.clear();
}
void wrote(const void* address, std::size_t bytes) { check(address, bytes, true, false, false); }
void read(const void* address, std::size_t bytes) { check(address, bytes, false, false, false); }
void note_atomic(const void* address, std::size_t bytes) {
  check(address, bytes, true, true, true);
}

void sync_block() {
  Block& b = engine.block;
  const unsigned t = self->flat;
  b.wait[t] = Wait::block;
  ++b.at_barrier;
  to_main();
}
int sync_block_count(int value) {
  engine.block.sum += value;
  sync_block();
  return engine.block.last_sum;
}
std::uint64_t exchange(unsigned mask, std::uint64_t bits, int from) {
  Block& b = engine.block;
  const unsigned t = self->flat, lane = self->lane;
  Warp& w = b.warps[self->warp];
  if (!(mask >> lane & 1))
    report("%s: lane %u is not in the mask %08x that it gives", engine.name, lane, mask);
  const unsigned width =
      b.count - self->warp * 32 >= 32 ? ~0u : (1u << (b.count - self->warp * 32)) - 1;
  mask &= width;  // hardware warps are whole; lanes that the block lacks never come
  if (mask & ~b.live_lanes[self->warp])
    report("%s: a warp operation waits for lanes that have ended (%08x)", engine.name,
           mask & ~b.live_lanes[self->warp]);
  const unsigned parity = w.parity;
  w.slots[parity][lane] = bits;
  w.arrived |= 1u << lane;
  b.masks[t] = mask & b.live_lanes[self->warp];
  b.wait[t] = Wait::warp;
  to_main();
  if (from < 0) return 0;
  if (!(mask >> from & 1)) {
    report("%s: lane %u asks lane %d, which is not there", engine.name, lane, from);
    return bits;
  }
  return w.slots[parity][from];
}
unsigned ballot(unsigned mask, bool value) {
  const unsigned parity = engine.block.warps[self->warp].parity;
  const Warp& w = engine.block.warps[self->warp];
  exchange(mask, value, int(self->lane));
  unsigned result = 0;
  for (unsigned l = 0; l < 32; ++l)
    if ((mask >> l & 1) && w.slots[parity][l]) result |= 1u << l;
  return result;
}
void* dynamic_shared() { return engine.block.shared.data(); }

void run(const Launch& launch, const std::function<void()>& kernel, const char* name) {
  Engine& e = engine;
  Block& b = e.block;
  e.kernel = &kernel;
  e.name = name;
  b.count = launch.block.x * launch.block.y * launch.block.z;
  if (b.count == 0 || b.count > 1024 || launch.grid.y > 65535 || launch.grid.z > 65535 ||
      launch.shared_bytes > 232448) {
    report("%s: a launch that no device takes", name);
    return;
  }
  b.threads.resize(b.count);
  b.wait.resize(b.count);
  b.masks.resize(b.count);
  b.fibers.resize(b.count);
  b.warps.resize((b.count + 31) / 32);
  b.live_lanes.resize(b.warps.size());
  b.shared.resize((launch.shared_bytes + 7) / 8);
  e.order.resize(b.count);
  for (unsigned t = 0; t < b.count; ++t) {
    e.order[t] = t;
    b.threads[t] = {{t % launch.block.x, t / launch.block.x % launch.block.y,
                     t / launch.block.x / launch.block.y},
                    {},
                    launch.block,
                    launch.grid,
                    t % 32,
                    t / 32,
                    t};
  }
  const std::uint64_t blocks = std::uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  std::mt19937 random(options().seed + e.op);
  const std::uint64_t shift = options().seed && blocks > 1 ? random() % blocks : 0;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::uint64_t n = options().seed ? (blocks - 1 - i + shift) % blocks : i;
    e.flat_block = std::uint32_t(n);
    const uint3 at{unsigned(n % launch.grid.x), unsigned(n / launch.grid.x % launch.grid.y),
                   unsigned(n / launch.grid.x / launch.grid.y)};
    for (auto& t : b.threads) t.block = at;
    run_block(e, random);
  }
  self = nullptr;
}
}  // namespace cuda_on_cpu

// g++ -fsanitize=thread calls these for every access to memory; libtsan is not linked.
extern "C" {
#define ACCESS(n)                                                                          \
  void __tsan_read##n(void* p) { cuda_on_cpu::check(p, n, false, false, true); }           \
  void __tsan_write##n(void* p) { cuda_on_cpu::check(p, n, true, false, true); }           \
  void __tsan_unaligned_read##n(void* p) { cuda_on_cpu::check(p, n, false, false, true); } \
  void __tsan_unaligned_write##n(void* p) { cuda_on_cpu::check(p, n, true, false, true); }
ACCESS(1)
ACCESS(2) ACCESS(4) ACCESS(8) ACCESS(16) void __tsan_read_range(void* p, unsigned long n) {
  cuda_on_cpu::check(p, n, false, false, true);
}
void __tsan_write_range(void* p, unsigned long n) { cuda_on_cpu::check(p, n, true, false, true); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
// What the kernels' own atomics (cpu_atomic) become; note_atomic() has been told already.
#define RMW(n, T, name)                                  \
  T __tsan_atomic##n##_##name(volatile T* p, T v, int) { \
    return __atomic_##name(p, v, __ATOMIC_SEQ_CST);      \
  }
#define ATOMIC(n, T)                                                                        \
  T __tsan_atomic##n##_load(const volatile T* p, int) {                                     \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                            \
  }                                                                                         \
  void __tsan_atomic##n##_store(volatile T* p, T v, int) {                                  \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                               \
  }                                                                                         \
  T __tsan_atomic##n##_exchange(volatile T* p, T v, int) {                                  \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                     \
  }                                                                                         \
  RMW(n, T, fetch_add)                                                                      \
  RMW(n, T, fetch_sub)                                                                      \
  int __tsan_atomic##n##_compare_exchange_weak(volatile T* p, T* c, T v, int, int) {        \
    return __atomic_compare_exchange_n(p, c, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }                                                                                         \
  int __tsan_atomic##n##_compare_exchange_strong(volatile T* p, T* c, T v, int, int) {      \
    return __atomic_compare_exchange_n(p, c, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }
ATOMIC(8, unsigned char)
ATOMIC(16, unsigned short)
ATOMIC(32, unsigned int)
ATOMIC(64, unsigned long)
}
