#include "foreign_device.h"

#include <execinfo.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <mutex>
#include <stdexcept>

#include "ops/backend.h"
#include "ops/kernels.h"

namespace troupe::testing {
namespace {

extern const Backend foreign;
constexpr Device device{&foreign, 0};

/// The memory of the device: blocks are taken in turn and never given back, since the allocator
/// above keeps them for reuse.
class Arena {
 public:
  Arena()
      : begin_(static_cast<std::byte*>(
            ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    if (begin_ == MAP_FAILED) throw std::runtime_error("no memory for the foreign device");
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
      throw std::runtime_error("mprotect of the foreign device's memory failed");
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

class Opening {
 public:
  Opening() { arena().open(); }
  ~Opening() { arena().close(); }
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;
};

struct sigaction previous_action;

/// Async-signal-safe: writes, then lets the access fault again with the action there was before.
void on_fault(int, siginfo_t* info, void*) {
  if (arena().holds(info->si_addr)) {
    constexpr char message[] =
        "host code touched the memory of the foreign device outside of a kernel, called from:\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message, sizeof(message) - 1);
    void* frames[32];
    ::backtrace_symbols_fd(frames, ::backtrace(frames, 32), STDERR_FILENO);
  }
  ::sigaction(SIGSEGV, &previous_action, nullptr);
}

/// Kernels allocate what they return on their device.
void check(std::initializer_list<Tensor> results) {
  for (const Tensor& result : results)
    if (result.defined() && result.device() != device)
      throw std::runtime_error("a kernel has made a tensor on another device");
}

Tensor checked(Tensor result) {
  check({result});
  return result;
}
ChannelMoments checked(ChannelMoments result) {
  check({result.mean, result.variance});
  return result;
}
NormGradients checked(NormGradients result) {
  check({result.x, result.weight, result.bias});
  return result;
}
AttentionOutput checked(AttentionOutput result) {
  check({result.y, result.saved});
  return result;
}
AttentionGradients checked(AttentionGradients result) {
  check({result.q, result.k, result.v});
  return result;
}
LayerNormOutput checked(LayerNormOutput result) {
  check({result.y, result.mean, result.inverse_deviation});
  return result;
}
LossOutput checked(LossOutput result) {
  check({result.totals, result.logits_grad});
  return result;
}

/// Kernels get what lies on their device. There is an overload for each type of an argument: one
/// that may hold a tensor has to say which.
class Arguments {
 public:
  explicit Arguments(std::string_view kernel) : kernel_(kernel) {}

  template <class... Args>
  void check(const Args&... args) {
    (check_next(args), ...);
  }

 private:
  template <class T>
  void check_next(const T& argument) {
    ++place_;
    check_one(argument);
  }
  void check_device(Device found) const {
    if (found != device)
      throw std::runtime_error(fmt::format("{}: argument {} is on {}, not on the foreign device",
                                           kernel_, place_, to_string(found)));
  }

  void check_one(const Stream& stream) const { check_device(stream.device); }
  void check_one(const Tensor& tensor) const {
    if (tensor.defined()) check_device(tensor.device());
  }
  void check_one(const ChannelMoments& moments) const {
    check_one(moments.mean);
    check_one(moments.variance);
  }
  void check_one(const NormEpilogue& epilogue) const { check_one(epilogue.residual); }
  void check_one(const LayerNormOutput& output) const {
    check_one(output.y);
    check_one(output.mean);
    check_one(output.inverse_deviation);
  }
  void check_one(const Shape&) const {}
  void check_one(const RandomKey&) const {}
  void check_one(const ConvolutionOptions&) const {}
  void check_one(const LinearOptions&) const {}
  void check_one(const ElementPlaces&) const {}
  void check_one(const MatmulOptions&) const {}
  void check_one(const AttentionOptions&) const {}
  void check_one(const AttentionOutput& output) const {
    check_one(output.y);
    check_one(output.saved);
  }
  void check_one(const PoolOptions&) const {}
  void check_one(const MomentumStep&) const {}
  void check_one(const AdamStep&) const {}
  template <class Number>
  requires(std::is_arithmetic_v<Number> || std::is_enum_v<Number>) void check_one(Number) const {}

  std::string_view kernel_;
  int place_ = 0;
};

/// One of the two may lie in the CPU's memory.
void check_copy(const Stream& stream, const Tensor& from, const Tensor& to) {
  Arguments("copy").check(stream, from.device() == Device::cpu() ? to : from);
}

class OpenedLayer final : public LayerKernel {
 public:
  explicit OpenedLayer(std::unique_ptr<LayerKernel> wrapped) : wrapped_(std::move(wrapped)) {}

  void use_weights(const Stream& stream, const Tensor& weight, const Tensor& bias,
                   std::uint64_t version) override {
    Arguments("LayerKernel::use_weights").check(stream, weight, bias);
    const Opening opening;
    wrapped_->use_weights(stream, weight, bias, version);
  }
  Tensor forward(const Stream& stream, const Tensor& x) override {
    Arguments("LayerKernel::forward").check(stream, x);
    const Opening opening;
    return checked(wrapped_->forward(stream, x));
  }
  Tensor input_gradient(const Stream& stream, const Tensor& grad, const Shape& x_shape,
                        Layout x_layout) override {
    Arguments("LayerKernel::input_gradient").check(stream, grad);
    const Opening opening;
    return checked(wrapped_->input_gradient(stream, grad, x_shape, x_layout));
  }
  void weight_gradient(const Stream& stream, const Tensor& x, const Tensor& grad,
                       Tensor& weight_grad, Tensor& bias_grad) override {
    Arguments("LayerKernel::weight_gradient").check(stream, x, grad, weight_grad, bias_grad);
    const Opening opening;
    wrapped_->weight_gradient(stream, x, grad, weight_grad, bias_grad);
  }

 private:
  std::unique_ptr<LayerKernel> wrapped_;
};

std::unique_ptr<LayerKernel> checked(std::unique_ptr<LayerKernel> kernel) {
  return std::make_unique<OpenedLayer>(std::move(kernel));
}

/// The entries of a KernelTable, as types.
#define TROUPE_KERNEL(kernel, signature)                 \
  struct kernel##_entry {                                \
    static constexpr std::string_view name = #kernel;    \
    static constexpr auto member = &KernelTable::kernel; \
  };
#include "ops/kernel_list.inc"

/// A kernel of the CPU, run with the memory open.
template <DType type, class Entry, class Signature>
struct Opened;
template <DType type, class Entry, class Result, class... Args>
struct Opened<type, Entry, Result(Args...)> {
  static Result run(Args... args) {
    if constexpr (std::is_same_v<Entry, copy_entry>)
      check_copy(args...);
    else
      Arguments(Entry::name).check(args...);
    const Opening opening;
    const auto kernel = kernels(Device::cpu(), type).*Entry::member;
    if constexpr (std::is_void_v<Result>)
      kernel(args...);
    else
      return checked(kernel(args...));
  }
};

template <DType type>
constexpr KernelTable opened_kernels{
#define TROUPE_KERNEL(name, signature) .name = Opened<type, name##_entry, signature>::run,
#include "ops/kernel_list.inc"
};

CachingAllocator& allocator(std::int16_t) {
  static auto* allocator = new CachingAllocator(
      device, {.allocate = [](std::size_t bytes) { return arena().allocate(bytes); },
               .release = [](void*, std::size_t) {}});
  return *allocator;
}

constexpr Backend foreign{
    .name = "foreign",
    .allocator = allocator,
    .kernels = [](DType type) -> const KernelTable* {
      if (type == DType::f32) return &opened_kernels<DType::f32>;
      if (type == DType::f64) return &opened_kernels<DType::f64>;
      return nullptr;
    },
    .multiplies = [](DType type) { return type == DType::f32; },
    .take_scratch_peak = [](std::int16_t) { return backend(Device::cpu()).take_scratch_peak(0); },
    .fingerprint = [] { return backend(Device::cpu()).fingerprint(); }};

}  // namespace

Device foreign_device() {
  static const bool watched = [] {
    void* frame = nullptr;
    ::backtrace(&frame, 1);  // loads what it needs now, not in the handler
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    return ::sigaction(SIGSEGV, &action, &previous_action) == 0;
  }();
  if (!watched) throw std::runtime_error("the foreign device cannot watch its memory");
  return device;
}

}  // namespace troupe::testing
