// There is no cuDNN on the emulator: the kernels of ops/cuda compute convolutions.

#include "no_cudnn.h"

#include <optional>

#include "ops/cuda/convert.h"
#include "ops/cuda/direct_convolution.h"
#include "ops/cuda/kernels.h"
#include "runtime/error.h"

namespace troupe {
namespace testing {
namespace {

struct Planned {
  bool adds_bias;
  std::vector<ConvolutionWork> works;
};
std::optional<Planned> planned;

class EmulatedPlan final : public cuda::ConvolutionPlan {
 public:
  explicit EmulatedPlan(ConvolutionWork work)
      : work_(std::move(work)), adds_bias_(planned->adds_bias) {}

  std::size_t workspace_bytes() const override { return 0; }
  std::vector<std::string> notes() const override { return {}; }
  bool adds_bias() const override { return adds_bias_; }
  void run(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
           const Tensor& y) override {
    using enum ConvolutionPass;
    check(x, work_.x);
    check(y, work_.y);
    check(weight, weight_shape(work_.options));
    const ConvolutionOptions& o = work_.options;
    Tensor found;
    switch (work_.pass) {
      case forward:
        found = f32(stream, y, work_.layout);
        cuda::direct_forward(stream, o, x, row_major(stream, weight), adds_bias_ ? bias : Tensor(),
                             found);
        return write(stream, found, y);
      case input_gradient:
        found = f32(stream, x, work_.layout);
        cuda::direct_input_gradient(stream, o, y, row_major(stream, weight), found);
        return write(stream, found, x);
      case weight_gradient:
        found = f32(stream, weight, Layout::row_major);
        cuda::direct_weight_gradient(stream, o, x, y, found);
        return write(stream, found, weight);
    }
  }

 private:
  void check(const Tensor& tensor, const Shape& shape) const {
    if (tensor.shape() == shape && tensor.layout() == work_.layout &&
        tensor.dtype() == work_.dtype && reinterpret_cast<std::uintptr_t>(tensor.raw()) % 16 == 0)
      return;
    throw Error(ErrorCode::internal, "a plan is given another tensor than it was made for");
  }
  static Tensor f32(const Stream& stream, const Tensor& like, Layout layout) {
    return Tensor::empty(like.shape(), DType::f32, stream.device, layout);
  }
  Tensor row_major(const Stream& stream, const Tensor& weight) const {
    const Tensor wide = cuda::in_form(stream, weight, weight.layout(), DType::f32);
    return cuda::in_form(stream, wide, Layout::row_major, work_.dtype);
  }
  static void write(const Stream& stream, const Tensor& from, Tensor to) {
    cuda::reorder(stream, from, to);
  }

  ConvolutionWork work_;
  bool adds_bias_;
};

}  // namespace

PlannedConvolutions::PlannedConvolutions(bool adds_bias) { planned = {adds_bias, {}}; }
PlannedConvolutions::~PlannedConvolutions() { planned = std::nullopt; }
const std::vector<ConvolutionWork>& PlannedConvolutions::works() const { return planned->works; }

}  // namespace testing

namespace cuda {

std::shared_ptr<ConvolutionPlan> plan_convolution(const Stream&, const ConvolutionWork& work) {
  if (!testing::planned) return nullptr;
  testing::planned->works.push_back(work);
  return std::make_shared<testing::EmulatedPlan>(work);
}
std::shared_ptr<ConvolutionPlan> plan_convolution(const ConvolutionWork&, const DescribedDevice*) {
  return nullptr;
}

std::string dnn_version() { return "no cuDNN"; }

}  // namespace cuda
}  // namespace troupe
