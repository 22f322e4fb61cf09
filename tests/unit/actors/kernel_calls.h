#pragma once
// Kernels of the CPU for devices of the tests: every call is shown to the device first, with all
// tensors that the kernel reads and writes.

#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "ops/kernels.h"

namespace troupe::testing {

// Calls `f` for each tensor of an argument or result. There is an overload for each type: one that
// may hold a tensor has to say which.
template <class F>
void visit_tensors(const Tensor& tensor, F&& f) {
  if (tensor.defined()) f(tensor);
}
template <class F>
void visit_tensors(const ChannelMoments& moments, F&& f) {
  visit_tensors(moments.mean, f);
  visit_tensors(moments.variance, f);
  visit_tensors(moments.norm, f);
}
template <class F>
void visit_tensors(const NormEpilogue& epilogue, F&& f) {
  visit_tensors(epilogue.residual, f);
}
template <class F>
void visit_tensors(const NormGradients& gradients, F&& f) {
  visit_tensors(gradients.x, f);
  visit_tensors(gradients.weight, f);
  visit_tensors(gradients.bias, f);
  visit_tensors(gradients.residual, f);
}
template <class F>
void visit_tensors(const LayerNormOutput& output, F&& f) {
  visit_tensors(output.y, f);
  visit_tensors(output.mean, f);
  visit_tensors(output.inverse_deviation, f);
}
template <class F>
void visit_tensors(const AttentionOutput& output, F&& f) {
  visit_tensors(output.y, f);
  visit_tensors(output.saved, f);
}
template <class F>
void visit_tensors(const AttentionGradients& gradients, F&& f) {
  visit_tensors(gradients.q, f);
  visit_tensors(gradients.k, f);
  visit_tensors(gradients.v, f);
}
template <class F>
void visit_tensors(const LossOutput& output, F&& f) {
  visit_tensors(output.totals, f);
  visit_tensors(output.logits_grad, f);
}
template <class F>
void visit_tensors(const Shape&, F&&) {}
template <class F>
void visit_tensors(const RandomKey&, F&&) {}
template <class F>
void visit_tensors(const ConvolutionOptions&, F&&) {}
template <class F>
void visit_tensors(const LinearOptions&, F&&) {}
template <class F>
void visit_tensors(const ElementPlaces&, F&&) {}
template <class F>
void visit_tensors(const MatmulOptions&, F&&) {}
template <class F>
void visit_tensors(const AttentionOptions&, F&&) {}
template <class F>
void visit_tensors(const PoolOptions&, F&&) {}
template <class Number, class F>
requires(std::is_arithmetic_v<Number> || std::is_enum_v<Number>) void visit_tensors(Number, F&&) {}

/// The kernels of a device whose class `Call` is one call of a kernel:
///
///     explicit Call(std::string_view kernel);
///     void on(int argument, const Stream& stream);
///     void reads(int argument, const Tensor& tensor);
///     void writes(int argument, const Tensor& tensor);  // a `Tensor&`, or a result of an update
///     void begin();                                      // the kernel runs until the destructor
///     void makes(const Tensor& result);
///     static void copy(DType table, const Stream& stream, const Tensor& from, Tensor& to);
template <class Call>
class KernelCalls {
  class Layer;

  /// Arguments count from 1.
  template <class Arg>
  static void show(Call& call, int place, Arg& argument) {
    if constexpr (std::is_same_v<Arg, const Stream>)
      call.on(place, argument);
    else if constexpr (std::is_same_v<Arg, Tensor>)
      visit_tensors(argument, [&](const Tensor& tensor) { call.writes(place, tensor); });
    else
      visit_tensors(argument, [&](const Tensor& tensor) { call.reads(place, tensor); });
  }
  static void show(Call& call, int place, const std::vector<Tensor>& read) {
    show(call, place, read, {});
  }
  static void show(Call& call, int place, const std::vector<MomentumUpdate>& updates) {
    for (const MomentumUpdate& update : updates)
      show(call, place, {update.weights, update.gradient, update.momentum},
           {update.new_weights, update.new_momentum});
  }
  static void show(Call& call, int place, const std::vector<AdamUpdate>& updates) {
    for (const AdamUpdate& update : updates)
      show(call, place, {update.weights, update.gradient, update.exp_avg, update.exp_avg_sq},
           {update.new_weights, update.new_exp_avg, update.new_exp_avg_sq});
  }
  static void show(Call& call, int place, const std::vector<Tensor>& read,
                   const std::vector<Tensor>& written) {
    for (const Tensor& tensor : read)
      visit_tensors(tensor, [&](const Tensor& defined) { call.reads(place, defined); });
    for (const Tensor& tensor : written)
      visit_tensors(tensor, [&](const Tensor& defined) { call.writes(place, defined); });
  }
  template <class... Args>
  static void begin(Call& call, Args&... args) {
    int place = 0;
    (show(call, ++place, args), ...);
    call.begin();
  }
  template <class Result>
  static Result made(Call& call, Result result) {
    visit_tensors(result, [&](const Tensor& tensor) { call.makes(tensor); });
    return result;
  }
  static std::unique_ptr<LayerKernel> made(Call&, std::unique_ptr<LayerKernel> kernel) {
    return std::make_unique<Layer>(std::move(kernel));
  }

/// The entries of a KernelTable, as types.
#define TROUPE_KERNEL(kernel, signature)                 \
  struct kernel##_entry {                                \
    static constexpr std::string_view name = #kernel;    \
    static constexpr auto member = &KernelTable::kernel; \
  };
#include "ops/kernel_list.inc"

  template <DType type, class Entry, class Signature>
  struct Entrance;
  template <DType type, class Entry, class Result, class... Args>
  struct Entrance<type, Entry, Result(Args...)> {
    static Result run(Args... args) {
      if constexpr (std::is_same_v<Entry, copy_entry>) {
        Call::copy(type, args...);
      } else {
        Call call(Entry::name);
        begin(call, args...);
        const auto kernel = kernels(Device::cpu(), type).*Entry::member;
        if constexpr (std::is_void_v<Result>)
          kernel(args...);
        else
          return made(call, kernel(args...));
      }
    }
  };

 public:
  template <DType type>
  static constexpr KernelTable table{
#define TROUPE_KERNEL(name, signature) .name = Entrance<type, name##_entry, signature>::run,
#include "ops/kernel_list.inc"
  };
  static const KernelTable* of(DType type) {
    if (type == DType::f32) return &table<DType::f32>;
    if (type == DType::f64) return &table<DType::f64>;
    return nullptr;
  }
};

template <class Call>
class KernelCalls<Call>::Layer final : public LayerKernel {
 public:
  explicit Layer(std::unique_ptr<LayerKernel> wrapped) : wrapped_(std::move(wrapped)) {}

  void use_weights(const Stream& stream, const Tensor& weight, const Tensor& bias,
                   std::uint64_t version) override {
    Call call("LayerKernel::use_weights");
    KernelCalls::begin(call, stream, weight, bias);
    wrapped_->use_weights(stream, weight, bias, version);
  }
  Tensor forward(const Stream& stream, const Tensor& x) override {
    Call call("LayerKernel::forward");
    KernelCalls::begin(call, stream, x);
    return made(call, wrapped_->forward(stream, x));
  }
  Tensor input_gradient(const Stream& stream, const Tensor& grad, const Shape& x_shape,
                        Layout x_layout) override {
    Call call("LayerKernel::input_gradient");
    KernelCalls::begin(call, stream, grad);
    return made(call, wrapped_->input_gradient(stream, grad, x_shape, x_layout));
  }
  void weight_gradient(const Stream& stream, const Tensor& x, const Tensor& grad,
                       Tensor& weight_grad, Tensor& bias_grad) override {
    Call call("LayerKernel::weight_gradient");
    KernelCalls::begin(call, stream, x, grad, weight_grad, bias_grad);
    wrapped_->weight_gradient(stream, x, grad, weight_grad, bias_grad);
  }

 private:
  std::unique_ptr<LayerKernel> wrapped_;
};

}  // namespace troupe::testing
