#include "recording.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "ops/cuda/kernels.h"
#include "runtime/error.h"
#include "tests/cuda/emulator/emulation.h"

namespace troupe::recording {
namespace {

std::FILE* file() {
  static std::FILE* opened = [] {
    const char* name = std::getenv("TROUPE_RECORD");
    std::FILE* made = name ? std::fopen(name, "w") : nullptr;
    if (!made)
      throw Error(ErrorCode::io, "TROUPE_RECORD names no file that can be written",
                  "set it to a path");
    return made;
  }();
  return opened;
}

/// Records from its construction to end().
class Recorder {
 public:
  explicit Recorder(const char* kernel)
      : kernel_(kernel), before_(cuda_on_cpu::given_by_thread()) {}
  void end() { add(kernel_, cuda_on_cpu::given_by_thread() - before_, traffic); }
  Traffic traffic;

 private:
  const char* kernel_;
  std::uint64_t before_;
};

/// A convolution or a linear layer: each pass counts as one kernel of cuDNN or cuBLASLt.
class RecordedLayer final : public LayerKernel {
 public:
  /// `products`: multiplications and additions for each element of the result y.
  RecordedLayer(std::unique_ptr<LayerKernel> kernel, const char* name, double products)
      : kernel_(std::move(kernel)), name_(name), products_(products) {}

  void use_weights(const Stream& stream, const Tensor& weight, const Tensor& bias,
                   std::uint64_t version) override {
    weight_ = weight;
    bias_ = bias;
    kernel_->use_weights(stream, weight, bias, version);
  }
  Tensor forward(const Stream& stream, const Tensor& x) override {
    Tensor y = kernel_->forward(stream, x);
    record(y, {&x, &weight_, &bias_, &y});
    return y;
  }
  Tensor input_gradient(const Stream& stream, const Tensor& grad, const Shape& x_shape,
                        Layout x_layout) override {
    Tensor x = kernel_->input_gradient(stream, grad, x_shape, x_layout);
    record(grad, {&grad, &weight_, &x});
    return x;
  }
  void weight_gradient(const Stream& stream, const Tensor& x, const Tensor& grad,
                       Tensor& weight_grad, Tensor& bias_grad) override {
    kernel_->weight_gradient(stream, x, grad, weight_grad, bias_grad);
    record(grad, {&x, &grad, &weight_grad, &bias_grad});
  }

 private:
  void record(const Tensor& y, std::initializer_list<const Tensor*> used) const {
    Traffic traffic{.operations = products_ * static_cast<double>(y.element_count())};
    for (const Tensor* tensor : used) count(traffic, *tensor);
    add(name_, 1, traffic);
  }
  std::unique_ptr<LayerKernel> kernel_;
  const char* name_;
  double products_;
  Tensor weight_, bias_;
};

double products_of(const ConvolutionOptions& o) {
  const std::int64_t of_one_result = o.in_channels / o.groups * o.kernel_h * o.kernel_w;
  return 2.0 * static_cast<double>(of_one_result);
}
double products_of(const LinearOptions& o) { return 2.0 * static_cast<double>(o.in_features); }

template <class Signature>
struct Recorded;
template <class R, class... A>
struct Recorded<R(A...)> {
  template <R (*kernel)(A...), const char* name>
  static R call(A... arguments) {
    if constexpr (std::is_same_v<R, std::unique_ptr<LayerKernel>>) {
      return std::make_unique<RecordedLayer>(kernel(arguments...), name, products_of(arguments...));
    } else {
      Recorder recorder(name);
      (count(recorder.traffic, arguments), ...);
      if constexpr (std::is_void_v<R>) {
        kernel(arguments...);
        recorder.end();
      } else {
        R result = kernel(arguments...);
        count(recorder.traffic, result);
        recorder.end();
        return result;
      }
    }
  }
};

namespace names {
#define TROUPE_KERNEL(name, signature) inline constexpr char name[] = #name;
#include "ops/kernel_list.inc"
}  // namespace names

}  // namespace

void add(const char* kernel, std::uint64_t launches, const Traffic& traffic) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (std::fprintf(file(), "%s,%llu,%.0f,%.0f\n", kernel, static_cast<unsigned long long>(launches),
                   traffic.bytes, traffic.operations) < 0 ||
      std::fflush(file()) != 0)
    throw Error(ErrorCode::io, "the file of TROUPE_RECORD cannot be written", "free some space");
}

void count(Traffic& traffic, const Tensor& tensor) {
  if (tensor.defined() && tensor.device() != Device::cpu())
    traffic.bytes += static_cast<double>(tensor.bytes());
}

const KernelTable& table() {
  static constexpr KernelTable all{
#define TROUPE_KERNEL(name, signature) .name = Recorded<signature>::call<cuda::name, names::name>,
#include "ops/kernel_list.inc"
  };
  return all;
}

}  // namespace troupe::recording
