#include "guarded_memory.h"

#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <stdexcept>

namespace troupe::testing {
namespace {

class Arena {
 public:
  Arena()
      : begin_(static_cast<std::byte*>(
            ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    if (begin_ == MAP_FAILED) throw std::runtime_error("no memory for the devices of tests");
  }

  void* allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    constexpr std::size_t page = 4096;
    const std::size_t needed = (bytes + page - 1) / page * page;
    if (needed > size - used_) return nullptr;
    std::byte* block = begin_ + used_;
    used_ += needed;
    if (open_ > 0) protect(block, needed, PROT_READ | PROT_WRITE);
    return block;
  }

  void open() {
    const std::lock_guard lock(mutex_);
    if (open_++ == 0) protect(begin_, used_, PROT_READ | PROT_WRITE);
  }
  void close() {
    const std::lock_guard lock(mutex_);
    if (--open_ == 0) protect(begin_, used_, PROT_NONE);
  }

  bool holds(const void* address) const {
    const auto* at = static_cast<const std::byte*>(address);
    return at >= begin_ && at < begin_ + size;
  }

 private:
  static constexpr std::size_t size = std::size_t{4} << 30;

  static void protect(void* begin, std::size_t bytes, int access) {
    if (bytes > 0 && ::mprotect(begin, bytes, access) != 0)
      throw std::runtime_error("mprotect of guarded memory failed");
  }

  std::mutex mutex_;
  std::byte* begin_;
  std::size_t used_ = 0;
  int open_ = 0;
};

Arena& arena() {
  static auto* arena = new Arena;
  return *arena;
}

struct sigaction previous_action;

/// Async-signal-safe: writes, then lets the access fault again with the action there was before.
void on_fault(int, siginfo_t* info, void*) {
  if (arena().holds(info->si_addr)) {
    constexpr char message[] =
        "host code touched the memory of a device outside of a kernel, called from:\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message, sizeof(message) - 1);
    void* frames[32];
    ::backtrace_symbols_fd(frames, ::backtrace(frames, 32), STDERR_FILENO);
  }
  ::sigaction(SIGSEGV, &previous_action, nullptr);
}

}  // namespace

void* allocate_guarded(std::size_t bytes) { return arena().allocate(bytes); }

OpenedMemory::OpenedMemory() { arena().open(); }
OpenedMemory::~OpenedMemory() { arena().close(); }

void watch_guarded_memory() {
  static const bool watched = [] {
    void* frame = nullptr;
    ::backtrace(&frame, 1);  // loads what it needs now, not in the handler
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    return ::sigaction(SIGSEGV, &action, &previous_action) == 0;
  }();
  if (!watched) throw std::runtime_error("guarded memory cannot be watched");
}

}  // namespace troupe::testing
