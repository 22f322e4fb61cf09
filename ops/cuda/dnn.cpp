// cuDNN's graphs, by its C++ frontend, which takes half a minute to compile: this file alone
// includes it.

#include "ops/cuda/dnn.h"

#include <cudnn_frontend.h>
#include <fmt/format.h>

#include <mutex>
#include <unordered_map>
#include <utility>

#include "ops/cuda/stream.h"
#include "runtime/error.h"

namespace troupe::cuda {
namespace {

namespace fe = cudnn_frontend;
using Attributes = std::shared_ptr<fe::graph::Tensor_attributes>;

Error failed(std::string_view operation, std::string_view reason) {
  return Error(ErrorCode::unsupported, fmt::format("cuDNN could not {}: {}", operation, reason),
               "look for a cuDNN 9 that fits the driver and the CUDA toolkit of this build");
}

/// The process's handle. It holds a stream, so calls that use it take turns.
class Handle {
 public:
  Handle() {
    if (const cudnnStatus_t status = cudnnCreate(&handle_); status != CUDNN_STATUS_SUCCESS)
      throw failed("start", cudnnGetErrorString(status));
  }
  template <class F>
  auto with(F&& f) {
    const std::lock_guard lock(mutex_);
    return f(handle_);
  }
  static Handle& get() {  // never destroyed: CUDA may have ended before
    static auto* handle = new Handle;
    return *handle;
  }

 private:
  std::mutex mutex_;
  cudnnHandle_t handle_ = nullptr;
};

std::vector<std::int64_t> dims_of(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end()};
}
std::vector<std::int64_t> strides_of(const Shape& s, Layout layout) {
  if (layout == Layout::nhwc) return {s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]};
  return {s[1] * s[2] * s[3], s[2] * s[3], s[3], 1};
}

// Fixed, so that the choice, and with it the bits, do not depend on what is free.
constexpr std::int64_t workspace_limit = std::int64_t{1} << 31;

enum Id : std::int64_t { x_id = 1, weight_id, bias_id, y_id };

Attributes input(fe::graph::Graph& graph, Id id, const Shape& shape, Layout layout) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_uid(id)
                          .set_dim(dims_of(shape))
                          .set_stride(strides_of(shape, layout)));
}
void output(const Attributes& tensor, Id id, const Shape& shape, Layout layout) {
  tensor->set_output(true)
      .set_uid(id)
      .set_dim(dims_of(shape))
      .set_stride(strides_of(shape, layout));
}

template <class PassAttributes>
PassAttributes attributes(const ConvolutionOptions& o) {
  PassAttributes a;
  a.set_padding({o.padding_h, o.padding_w})
      .set_stride({o.stride_h, o.stride_w})
      .set_dilation({o.dilation_h, o.dilation_w});
  return a;
}

void add_nodes(fe::graph::Graph& graph, const ConvolutionWork& work) {
  const ConvolutionOptions& o = work.options;
  const Shape w = weight_shape(o);
  const auto in = [&](Id id, const Shape& shape) { return input(graph, id, shape, work.layout); };
  switch (work.pass) {
    case ConvolutionPass::forward: {
      Attributes sum = graph.conv_fprop(in(x_id, work.x), in(weight_id, w),
                                        attributes<fe::graph::Conv_fprop_attributes>(o));
      if (work.bias)
        sum = graph.pointwise(sum, in(bias_id, {1, o.out_channels, 1, 1}),
                              fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
      return output(sum, y_id, work.y, work.layout);
    }
    case ConvolutionPass::input_gradient:
      return output(graph.conv_dgrad(in(y_id, work.y), in(weight_id, w),
                                     attributes<fe::graph::Conv_dgrad_attributes>(o)),
                    x_id, work.x, work.layout);
    case ConvolutionPass::weight_gradient:
      return output(graph.conv_wgrad(in(y_id, work.y), in(x_id, work.x),
                                     attributes<fe::graph::Conv_wgrad_attributes>(o)),
                    weight_id, w, work.layout);
  }
}

class Plan final : public ConvolutionPlan {
 public:
  /// False if cuDNN has no plan that does as it must.
  bool build(const ConvolutionWork& work, const DescribedDevice* described) {
    graph_.set_io_data_type(fe::DataType_t::FLOAT)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    adds_bias_ = work.bias && work.pass == ConvolutionPass::forward;
    add_nodes(graph_, work);
    if (!described) return Handle::get().with([&](cudnnHandle_t handle) { return plan(handle); });
    auto properties = std::make_shared<fe::DeviceProperties>();
    if (auto read = properties->deserialize(described->properties); read.is_bad())
      throw failed("read the description of a device", read.get_message());
    graph_.set_sm_version(described->architecture).set_device_properties(properties);
    return plan(nullptr);
  }

  std::size_t workspace_bytes() const override { return workspace_; }
  void run(const Stream& stream, void* x, void* weight, const void* bias, void* y,
           void* workspace) override {
    std::unordered_map<std::int64_t, void*> pointers{{x_id, x}, {weight_id, weight}, {y_id, y}};
    if (adds_bias_) pointers.emplace(bias_id, const_cast<void*>(bias));  // which is only read
    const cudaStream_t to = native(stream);
    auto ran = Handle::get().with([&](cudnnHandle_t handle) {
      if (const cudnnStatus_t status = cudnnSetStream(handle, to); status != CUDNN_STATUS_SUCCESS)
        throw failed("take a stream", cudnnGetErrorString(status));
      return graph_.execute(handle, pointers, workspace);
    });
    if (ran.is_bad()) throw failed("run a convolution", ran.get_message());
  }

 private:
  bool plan(cudnnHandle_t handle) {
    if (auto valid = graph_.validate(); valid.is_bad())
      throw failed("take a convolution", valid.get_message());
    const bool built =
        (handle ? graph_.build_operation_graph(handle) : graph_.build_operation_graph())
            .is_good() &&
        graph_.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}).is_good();
    if (!built) return false;
    graph_.deselect_workspace_greater_than(workspace_limit);
    graph_.deselect_numeric_notes({fe::NumericalNote_t::NONDETERMINISTIC,
                                   fe::NumericalNote_t::TENSOR_CORE,
                                   fe::NumericalNote_t::DOWN_CONVERT_INPUTS});
    const bool found =
        (handle ? graph_.check_support(handle) : graph_.check_support()).is_good() &&
        (handle ? graph_.build_plans(handle, fe::BuildPlanPolicy_t::HEURISTICS_CHOICE)
                : graph_.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE))
            .is_good();
    if (found) workspace_ = static_cast<std::size_t>(graph_.get_workspace_size());
    return found;
  }

  fe::graph::Graph graph_;
  std::size_t workspace_ = 0;
  bool adds_bias_ = false;
};

}  // namespace

std::unique_ptr<ConvolutionPlan> plan_convolution(const ConvolutionWork& work,
                                                  const DescribedDevice* described) {
  if (work.dtype != DType::f32) return nullptr;
  auto plan = std::make_unique<Plan>();
  if (!plan->build(work, described)) return nullptr;
  return plan;
}

}  // namespace troupe::cuda
