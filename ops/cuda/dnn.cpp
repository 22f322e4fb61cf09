// cuDNN's graphs, by its C++ frontend, which takes half a minute to compile: this file alone
// includes it.

#include "ops/cuda/dnn.h"

#include <cudnn_frontend.h>
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "ops/cuda/library.h"
#include "ops/cuda/library_error.h"
#include "ops/cuda/stream.h"
#include "ops/cuda/with_memory.h"
#include "ops/cuda/workspace.h"
#include "ops/gpu_sizes.h"
#include "runtime/device/block_uses.h"
#include "runtime/error.h"

namespace troupe::cuda {
namespace {

namespace fe = cudnn_frontend;
using Attributes = std::shared_ptr<fe::graph::Tensor_attributes>;

/// Whether cuDNN means that it has no such plan: all statuses that the frontend's message tells
/// ("Warning: CUDNN_STATUS_…", "code: CUDNN_STATUS_…") say so. It tells none where it has left out
/// all plans itself.
bool is_refusal(std::string_view message) {
  constexpr std::string_view status = ": CUDNN_STATUS_", refusal = ": CUDNN_STATUS_NOT_SUPPORTED";
  for (auto at = message.find(status); at != message.npos; at = message.find(status, at + 1))
    if (!message.substr(at).starts_with(refusal)) return false;
  return true;
}

[[noreturn]] void fail(std::string_view operation, std::string reason) {
  const bool out_of_memory =
      reason.find("ALLOCATION_FAILED") != reason.npos || reason.find("ALLOC_FAILED") != reason.npos;
  throw_error({"cuDNN", operation, std::move(reason), out_of_memory});
}
void check(cudnnStatus_t status, std::string_view operation) {
  if (status != CUDNN_STATUS_SUCCESS) fail(operation, cudnnGetErrorString(status));
}

/// The handle of a stream, so that calls for different streams do not wait for each other. Handles
/// are never destroyed: CUDA may have ended before; a new stream at the same address takes one
/// over.
cudnnHandle_t handle_of(const Stream& stream) {
  static std::mutex mutex;
  static auto* handles = new std::map<cudaStream_t, cudnnHandle_t>;
  const cudaStream_t key = native(stream);
  const std::lock_guard lock(mutex);
  cudnnHandle_t& handle = (*handles)[key];
  if (!handle) check(cudnnCreate(&handle), "start");
  check(cudnnSetStream(handle, key), "take a stream");
  return handle;
}

fe::DataType_t type_of(DType dtype) {
  if (dtype == DType::bf16) return fe::DataType_t::BFLOAT16;
  return dtype == DType::f16 ? fe::DataType_t::HALF : fe::DataType_t::FLOAT;
}

std::vector<std::int64_t> dims_of(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end()};
}
std::vector<std::int64_t> strides_of(const Shape& s, Layout layout) {
  if (layout == Layout::nhwc) return {s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]};
  return {s[1] * s[2] * s[3], s[2] * s[3], s[3], 1};
}

enum Id : std::int64_t { x_id = 1, weight_id, bias_id, y_id };

Attributes input(fe::graph::Graph& graph, Id id, const Shape& shape, Layout layout, DType dtype) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_uid(id)
                          .set_dim(dims_of(shape))
                          .set_stride(strides_of(shape, layout))
                          .set_data_type(type_of(dtype)));
}

template <class PassAttributes>
PassAttributes attributes(const ConvolutionOptions& o) {
  PassAttributes a;
  a.set_padding({o.padding_h, o.padding_w})
      .set_stride({o.stride_h, o.stride_w})
      .set_dilation({o.dilation_h, o.dilation_w});
  return a;
}

std::string text_of(const ConvolutionWork& work) {
  const ConvolutionOptions& o = work.options;
  constexpr const char* passes[] = {"", "the input gradient of ", "the weight gradient of "};
  return fmt::format(
      "{}a convolution of {} by {}{} in {}{} ({}; stride {} x {}, padding {} x {}, dilation {} x "
      "{}, {} groups{})",
      passes[static_cast<int>(work.pass)], to_string(work.x), to_string(weight_shape(o)),
      work.bias ? " with a bias" : "", name_of(work.dtype), work.tf32 ? " or TF32" : "",
      name_of(work.layout), o.stride_h, o.stride_w, o.padding_h, o.padding_w, o.dilation_h,
      o.dilation_w, o.groups, work.deterministic ? "" : "; sums in any order");
}

void add_nodes(fe::graph::Graph& graph, const ConvolutionWork& work) {
  const ConvolutionOptions& o = work.options;
  const Shape w = weight_shape(o);
  const auto in = [&](Id id, const Shape& shape) {
    return input(graph, id, shape, work.layout, work.dtype);
  };
  const auto out = [&](const Attributes& tensor, Id id, const Shape& shape) {
    tensor->set_output(true)
        .set_uid(id)
        .set_dim(dims_of(shape))
        .set_stride(strides_of(shape, work.layout))
        .set_data_type(type_of(work.dtype));
  };
  switch (work.pass) {
    case ConvolutionPass::forward: {
      Attributes sum = graph.conv_fprop(in(x_id, work.x), in(weight_id, w),
                                        attributes<fe::graph::Conv_fprop_attributes>(o));
      if (work.bias)
        sum = graph.pointwise(
            sum, input(graph, bias_id, {1, o.out_channels, 1, 1}, work.layout, DType::f32),
            fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
      return out(sum, y_id, work.y);
    }
    case ConvolutionPass::input_gradient:
      return out(graph.conv_dgrad(in(y_id, work.y), in(weight_id, w),
                                  attributes<fe::graph::Conv_dgrad_attributes>(o)),
                 x_id, work.x);
    case ConvolutionPass::weight_gradient:
      return out(graph.conv_wgrad(in(y_id, work.y), in(x_id, work.x),
                                  attributes<fe::graph::Conv_wgrad_attributes>(o)),
                 weight_id, w);
  }
}

/// What plans may not do. Those that use tensor cores on f32 round it to TF32, unless they are
/// noted to convert their inputs down, to whatever. Winograd's and Fourier's transforms of factors
/// would be rounded once more for tensor cores.
std::vector<fe::NumericalNote_t> unwanted_notes(const ConvolutionWork& work) {
  using enum fe::NumericalNote_t;
  std::vector<fe::NumericalNote_t> unwanted{DOWN_CONVERT_INPUTS, TENSOR_CORE};
  if (work.dtype != DType::f32 || work.tf32)
    unwanted = {DOWN_CONVERT_INPUTS, REDUCED_PRECISION_REDUCTION, WINOGRAD, FFT};
  if (work.deterministic) unwanted.push_back(NONDETERMINISTIC);
  return unwanted;
}

/// The mode whose first plans are faster on an H100 (bench/notes/gpu.md). In f32, those of mode A
/// for weight gradients of few channels take up to ten times as long as those of mode B.
fe::HeurMode_t heuristic_for(const ConvolutionWork& work) {
  if (work.dtype != DType::f32) return fe::HeurMode_t::A;
  const bool of_weight = work.pass == ConvolutionPass::weight_gradient;
  return work.tf32 && !of_weight ? fe::HeurMode_t::A : fe::HeurMode_t::B;
}

/// With the notes of the chosen plan, which the frontend tells derived classes only.
class Graph final : public fe::graph::Graph {
 public:
  std::vector<std::string> notes() const {
    std::vector<std::string> names;
    for (const fe::NumericalNote_t note :
         plans.numeric_notes.at(static_cast<std::size_t>(plans.candidate)))
      names.push_back(nlohmann::json(note).get<std::string>());
    return names;
  }
};

class Plan final : public ConvolutionPlan {
 public:
  explicit Plan(const ConvolutionWork& work) : work_(work) {
    graph_.set_io_data_type(type_of(work.dtype))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    add_nodes(graph_, work_);
  }

  /// Why cuDNN supports no plan that does as it must; nothing if there is one.
  std::optional<std::string> build(cudnnHandle_t handle) {
    return build([&] { return graph_.build_operation_graph(handle); });
  }
  std::optional<std::string> build(const DescribedDevice& described) {
    auto properties = std::make_shared<fe::DeviceProperties>();
    if (auto read = properties->deserialize(described.properties); read.is_bad())
      fail("read the description of a device", read.get_message());
    graph_.set_sm_version(described.architecture).set_device_properties(properties);
    return build([&] { return graph_.build_operation_graph(); });
  }

  std::size_t workspace_bytes() const override { return workspace_; }
  std::vector<std::string> notes() const override { return graph_.notes(); }
  bool adds_bias() const override { return work_.bias; }
  void run(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
           const Tensor& y) override {
    std::unordered_map<std::int64_t, void*> pointers{
        {x_id, x.raw()}, {weight_id, weight.raw()}, {y_id, y.raw()}};
    if (work_.bias) pointers.emplace(bias_id, bias.raw());
    for (const Tensor& used : {x, weight, bias, y}) note_use(stream, used);
    with_memory(stream, [&] {
      const Tensor memory = workspace(stream, workspace_);
      auto ran = graph_.execute(handle_of(stream), pointers, memory.raw());
      if (ran.is_bad()) fail("run " + text_of(work_), ran.get_message());
    });
  }

 private:
  template <class F>
  std::optional<std::string> build(F&& build_operation_graph) {
    check(graph_.validate());
    if (auto built = build_operation_graph(); built.is_bad()) return refusal(built);
    if (auto made = graph_.create_execution_plans({heuristic_for(work_), fe::HeurMode_t::FALLBACK});
        made.is_bad())
      return refusal(made);
    graph_.deselect_workspace_greater_than(static_cast<std::int64_t>(plan_workspace_limit));
    graph_.deselect_numeric_notes(unwanted_notes(work_));
    std::string reason;
    std::optional<Error> failure;
    for (std::int64_t i = 0; i < graph_.get_execution_plan_count(); ++i) {
      auto built = graph_.build_plan_at_index(i);
      if (built.is_good()) {
        // Takes the plan that is there, and makes ready to run it.
        check(graph_.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE));
        workspace_ = static_cast<std::size_t>(graph_.get_workspace_size());
        if (failure)
          warn_once(
              fmt::format("cuDNN failed to build its preferred plan for {}; the next plan gives "
                          "other bits: {}",
                          text_of(work_), failure->message()));
        return std::nullopt;
      }
      try {
        reason = *refusal(built);
      } catch (const Error& error) {
        // The choice, and with it the bits, may not depend on what memory is free.
        if (error.code() != ErrorCode::unsupported) throw;
        failure = error;
      }
    }
    if (failure) throw Error(*failure);
    return reason;
  }
  void check(fe::error_t status) const {
    if (status.is_bad()) fail("plan " + text_of(work_), status.get_message());
  }
  /// The reason of a refusal; throws another failure.
  std::optional<std::string> refusal(fe::error_t& status) const {
    if (!is_refusal(status.get_message())) check(status);
    return status.get_message();
  }

  ConvolutionWork work_;  ///< with a bias if the plan adds one
  Graph graph_;
  std::size_t workspace_ = 0;
};

/// A plan that adds the bias if there is one; or else one without it.
template <class On>
std::shared_ptr<ConvolutionPlan> plan_on(ConvolutionWork work, const On& device,
                                         std::string& refusal) {
  work.bias = work.bias && work.pass == ConvolutionPass::forward;
  for (;;) {
    auto plan = std::make_shared<Plan>(work);
    const std::optional<std::string> refused = plan->build(device);
    if (!refused) return plan;
    refusal = *refused;
    if (!std::exchange(work.bias, false)) return nullptr;
  }
}

/// cuDNN 9.11 and later do not support GPUs before sm_75, but make plans for them.
bool supports_device() {
  static const bool supports = [] {
    constexpr std::size_t last_for_all = 91'099;
    return cudnnGetVersion() <= last_for_all || compute_capability() >= 75;
  }();
  return supports;
}

}  // namespace

std::shared_ptr<ConvolutionPlan> plan_convolution(const Stream& stream,
                                                  const ConvolutionWork& work) {
  if (work.dtype == DType::f64) return nullptr;
  if (!supports_device()) {
    warn_once(
        fmt::format("{} does not support this GPU, so slower kernels compute convolutions; "
                    "install cuDNN 9.10",
                    dnn_version()));
    return nullptr;
  }
  static std::mutex mutex;
  static auto* plans =
      new std::map<std::pair<cudaStream_t, ConvolutionWork>, std::shared_ptr<ConvolutionPlan>>;
  const std::pair key{native(stream), work};
  {
    const std::lock_guard lock(mutex);
    if (const auto found = plans->find(key); found != plans->end()) return found->second;
  }
  std::string refusal;
  auto plan = with_memory(stream, [&] { return plan_on(work, handle_of(stream), refusal); });
  if (!plan)
    warn_once(fmt::format("cuDNN has no {}plan for {}, so a slower kernel computes it: {}",
                          work.deterministic ? "deterministic " : "", text_of(work), refusal));
  const std::lock_guard lock(mutex);
  return plans->emplace(key, plan).first->second;
}

std::shared_ptr<ConvolutionPlan> plan_convolution(const ConvolutionWork& work,
                                                  const DescribedDevice* described) {
  if (work.dtype == DType::f64) return nullptr;
  std::string refusal;
  return plan_on(work, *described, refusal);
}

std::string dnn_version() {
  const std::size_t version = cudnnGetVersion();  // 91900
  return fmt::format("cuDNN {}.{}.{}", version / 10'000, version / 100 % 100, version % 100);
}

}  // namespace troupe::cuda
