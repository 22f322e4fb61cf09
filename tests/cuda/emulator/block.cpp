#include "block.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "own_object.h"
#include "violations.h"

namespace cuda_on_cpu {
namespace {

/// Fibers are kept for the next block.
struct FiberPool {
  std::vector<std::unique_ptr<Fiber>> all;
  std::vector<Fiber*> idle;

  Fiber* take() {
    if (idle.empty()) {
      all.push_back(std::make_unique<Fiber>());
      return all.back().get();
    }
    Fiber* fiber = idle.back();
    idle.pop_back();
    return fiber;
  }
};
FiberPool& fibers() {
  thread_local FiberPool pool;
  return pool;
}

bool lies_in(const void* address, const void* begin, std::size_t bytes) {
  return static_cast<std::size_t>(static_cast<const char*>(address) -
                                  static_cast<const char*>(begin)) < bytes;
}

}  // namespace

BlockRunner::BlockRunner(const Launch& launch, const Operation& operation, std::uint64_t seed,
                         std::uintptr_t checked_places)
    : launch_(launch),
      operation_(operation),
      checker_(operation),
      memory_(Memory::get()),
      shared_(shared_memory()),
      random_(seed),
      shuffles_(seed != 0),
      checked_factor_(UINT64_MAX / checked_places + 1),
      threads_(std::size_t{launch.block.x} * launch.block.y * launch.block.z),
      warps_(threads_.size() / 32),
      warp_order_(warps_.size()),
      order_(threads_.size()) {
  std::iota(warp_order_.begin(), warp_order_.end(), 0u);
  std::iota(order_.begin(), order_.end(), 0u);
}

bool BlockRunner::run(std::uint64_t block) {
  begin_block(block);
  current_ = this;
  bool moves = true;
  for (std::size_t warp = 0; warp < warps_.size(); ++warp) start_warp(warp);
  while (live_ > 0 && moves) moves = advance();
  current_ = nullptr;
  if (!moves) abandon();
  return moves;
}

void BlockRunner::begin_block(std::uint64_t block) {
  block_ = block;
  std::ranges::fill(threads_, Thread{});
  std::ranges::fill(warps_, Warp{.live = ~0u});
  live_ = static_cast<unsigned>(threads_.size());
  at_barrier_ = 0;
  barriers_ = 0;
  if (shuffles_) shuffle_threads();
}

void BlockRunner::shuffle_threads() {
  std::ranges::shuffle(warp_order_, random_);
  for (std::size_t warp = 0; warp < warps_.size(); ++warp) {
    const std::span<unsigned> threads = threads_of(warp);
    std::iota(threads.begin(), threads.end(), warp_order_[warp] * 32);
    std::ranges::shuffle(threads, random_);
  }
}

std::span<unsigned> BlockRunner::threads_of(std::size_t warp) {
  return std::span(order_).subspan(warp * 32, 32);
}

void BlockRunner::start_warp(std::size_t warp) {
  for (starting_ = threads_of(warp); !starting_.empty();) {
    Fiber* fiber = fibers().take();
    fiber->begin(run_threads);
    threads_[starting_.front()].fiber = fiber;
    resume(starting_.front());
  }
  advance_warp(warp);
}

// What each fiber does: threads of the warp that have not begun, one after another.
void BlockRunner::run_threads() {
  Fiber* fiber = current_->threads_[current_->running_].fiber;
  while (!current_->starting_.empty()) {
    const unsigned thread = current_->starting_.front();
    current_->starting_ = current_->starting_.subspan(1);
    current_->threads_[thread].fiber = fiber;
    current_->run_thread(thread);
  }
  fibers().idle.push_back(fiber);
  fiber->suspend();
}

void BlockRunner::run_thread(unsigned thread) {
  running_ = thread;
  launch_.kernel.call(launch_.kernel.object.get());
  threads_[thread].wait = Wait::ended;
  warps_[thread / 32].live &= ~(1u << thread % 32);
  --live_;
}

bool BlockRunner::advance() {
  if (at_barrier_ == live_) release_barrier();
  bool moved = false;
  for (std::size_t warp = 0; warp < warps_.size(); ++warp) moved |= advance_warp(warp);
  return moved;
}

// Runs a warp until all its lanes wait, so that their stacks stay in the L1 cache. The checker
// finds races between warps in any order of execution.
bool BlockRunner::advance_warp(std::size_t warp) {
  bool moved = false;
  for (bool moves = true; moves; moved |= moves) {
    moves = false;
    for (const unsigned thread : threads_of(warp)) {
      if (threads_[thread].wait == Wait::warp && !complete_warp(thread)) continue;
      if (threads_[thread].wait != Wait::nothing) continue;
      moves = true;
      resume(thread);
    }
  }
  return moved;
}

void BlockRunner::resume(unsigned thread) {
  running_ = thread;
  threads_[thread].fiber->resume();
}

void BlockRunner::suspend() { threads_[running_].fiber->suspend(); }

void BlockRunner::sync_block(const Where& where) {
  Thread& self = threads_[running_];
  self.wait = Wait::block;
  self.barrier = where;
  ++at_barrier_;
  suspend();
}

// Real barriers may let all this pass, or never end.
void BlockRunner::release_barrier() {
  if (live_ < threads_.size())
    report(fmt::format("{}: in block {}, {} of {} threads have ended before a __syncthreads",
                       operation_.name, block_, threads_.size() - live_, threads_.size()));
  const Thread* first = nullptr;
  bool told = false;
  for (Thread& thread : threads_) {
    if (thread.wait != Wait::block) continue;
    thread.wait = Wait::nothing;
    if (!first) first = &thread;
    if (told || thread.barrier.line() == first->barrier.line()) continue;
    told = true;
    report(fmt::format("{}: in block {}, threads meet at two __syncthreads, {}:{} and line {}",
                       operation_.name, block_, first->barrier.file_name(), first->barrier.line(),
                       thread.barrier.line()));
  }
  at_barrier_ = 0;
  ++barriers_;
}

std::uint64_t BlockRunner::meet_warp(WarpOperation operation, unsigned mask, std::uint64_t bits,
                                     int from) {
  Thread& self = threads_[running_];
  if (!(mask >> lane() & 1)) {
    report_here(fmt::format("is not in the mask {:08x} that it gives", mask));
    return bits;
  }
  self.wait = Wait::warp;
  self.operation = operation;
  self.mask = mask;
  self.bits = bits;
  self.from = from;
  suspend();
  return self.result;
}

// All lanes of the thread's mask have come, and go on.
bool BlockRunner::complete_warp(unsigned thread) {
  Thread* lanes = &threads_[thread - thread % 32];
  Warp& warp = warps_[thread / 32];
  const unsigned mask = threads_[thread].mask & warp.live;
  for (unsigned l = 0; l < 32; ++l)
    if ((mask >> l & 1) && lanes[l].wait != Wait::warp) return false;
  if (mask != threads_[thread].mask)
    report(fmt::format("{}: in block {}, the mask {:08x} names lanes of warp {} that have ended",
                       operation_.name, block_, threads_[thread].mask, thread / 32));
  for (unsigned l = 0; l < 32; ++l) {
    if (!(mask >> l & 1)) continue;
    if (lanes[l].mask == threads_[thread].mask && lanes[l].operation == threads_[thread].operation)
      continue;
    report(
        fmt::format("{}: in block {}, lanes of warp {} meet with the masks {:08x} and {:08x}, "
                    "or in two kinds of operation",
                    operation_.name, block_, thread / 32, threads_[thread].mask, lanes[l].mask));
    break;
  }
  exchange(lanes, mask);
  // Only __syncwarp puts accesses to memory in order; shuffles and votes do not.
  if (threads_[thread].operation == WarpOperation::barrier) ++warp.barriers;
  return true;
}

void BlockRunner::exchange(Thread* lanes, unsigned mask) {
  std::uint64_t votes = 0;
  for (unsigned l = 0; l < 32; ++l)
    if ((mask >> l & 1) && lanes[l].bits != 0) votes |= std::uint64_t{1} << l;
  for (unsigned l = 0; l < 32; ++l) {
    if (!(mask >> l & 1)) continue;
    Thread& lane = lanes[l];
    lane.wait = Wait::nothing;
    lane.result = votes;
    if (lane.operation != WarpOperation::shuffle) continue;
    lane.result = lane.bits;
    if (mask >> (lane.from & 31) & 1)
      lane.result = lanes[lane.from & 31].bits;
    else
      report(fmt::format("{}: in block {}, lane {} asks lane {}, which is not there",
                         operation_.name, block_, l, lane.from));
  }
}

// The fibers of threads that wait begin anew with another block.
void BlockRunner::abandon() {
  const auto waiting = [&](Wait what) { return std::ranges::count(threads_, what, &Thread::wait); };
  report(fmt::format(
      "{}: block {} stands still: {} threads have ended, {} wait at __syncthreads, "
      "{} for lanes of their warps",
      operation_.name, block_, waiting(Wait::ended), waiting(Wait::block), waiting(Wait::warp)));
  for (const Thread& thread : threads_)
    if (thread.wait != Wait::ended) fibers().idle.push_back(thread.fiber);
}

uint3 BlockRunner::thread_index() const {
  const dim3 size = launch_.block;
  return {running_ % size.x, running_ / size.x % size.y, running_ / size.x / size.y};
}

uint3 BlockRunner::block_index() const {
  const dim3 size = launch_.grid;
  return {static_cast<unsigned>(block_ % size.x), static_cast<unsigned>(block_ / size.x % size.y),
          static_cast<unsigned>(block_ / size.x / size.y)};
}

void BlockRunner::stop_thread() {
  threads_[running_].wait = Wait::stopped;
  suspend();
}

void BlockRunner::report_here(const std::string& what) const {
  report(fmt::format("{}: thread {} of block {} {}", operation_.name, running_, block_, what));
}

Region* BlockRunner::region_of(const void* address) {
  if (memory_.contains(address)) return memory_.find(address);
  return lies_in(address, shared_.begin, shared_.bytes) ? &shared_ : nullptr;
}

bool BlockRunner::is_argument_or_constant(const void* address) const {
  const Closure& kernel = launch_.kernel;
  return lies_in(address, kernel.object.get(), kernel.bytes) ||
         lies_in(address, own_object().begin, own_object().bytes);
}

void BlockRunner::check(const void* address, std::size_t bytes, Mode mode) {
  if (threads_[running_].fiber->has_on_stack(address)) return;
  if (Region* region = region_of(address))
    return checker_.access(*region, address, bytes, mode,
                           {.block = static_cast<std::uint32_t>(block_),
                            .thread = static_cast<std::uint16_t>(running_),
                            .barrier = barriers_,
                            .warp_barrier = warps_[running_ / 32].barriers});
  if (!is_argument_or_constant(address))
    report_here(mode == Mode::read ? "reads memory that is not the device's"
                                   : "writes memory that is not the device's");
}

void run_grid(const Launch& launch, const Operation& operation, std::uint64_t seed,
              std::uintptr_t checked_places) {
  const dim3 grid = launch.grid;
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  BlockRunner runner(launch, operation, seed, checked_places);
  const std::uint64_t first = seed % blocks;  // and then backwards
  for (std::uint64_t i = 0; i < blocks; ++i)
    if (!runner.run(seed == 0 ? i : (first + blocks - i) % blocks)) return;
}

uint3 thread_index() { return BlockRunner::current()->thread_index(); }
uint3 block_index() { return BlockRunner::current()->block_index(); }
dim3 block_dim() { return BlockRunner::current()->launch().block; }
dim3 grid_dim() { return BlockRunner::current()->launch().grid; }
int lane() { return BlockRunner::current()->lane(); }
void sync_block(const Where& where) { BlockRunner::current()->sync_block(where); }
std::uint64_t meet_warp(WarpOperation operation, unsigned mask, std::uint64_t bits, int from) {
  return BlockRunner::current()->meet_warp(operation, mask, bits, from);
}

}  // namespace cuda_on_cpu
