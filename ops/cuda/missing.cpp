// Kernels that are still to come.
#include "ops/cuda/kernels.h"
#include "runtime/error.h"

namespace troupe::cuda {
namespace {
[[noreturn]] void missing(const char* kernel) {
  throw Error(ErrorCode::unsupported, std::string(kernel) + " has no kernel for GPUs yet");
}
}  // namespace
__attribute__((weak)) std::unique_ptr<LayerKernel> convolution(const ConvolutionOptions&) {
  missing("convolution");
}
__attribute__((weak)) std::unique_ptr<LayerKernel> linear(const LinearOptions&) {
  missing("linear");
}
__attribute__((weak)) void copy(const Stream&, const Tensor&, Tensor&) { missing("copy"); }
__attribute__((weak)) void fill(const Stream&, double, Tensor&) { missing("fill"); }
__attribute__((weak)) void scale(const Stream&, const Tensor&, double, Tensor&) {
  missing("scale");
}
__attribute__((weak)) void fold(const Stream&, const Tensor&, double, Tensor&) { missing("fold"); }
__attribute__((weak)) void square_sum(const Stream&, const Tensor&, Tensor&) {
  missing("square_sum");
}
__attribute__((weak)) void reorder(const Stream&, const Tensor&, Tensor&) { missing("reorder"); }
__attribute__((weak)) Tensor relu(const Stream&, const Tensor&) { missing("relu"); }
__attribute__((weak)) Tensor relu_backward(const Stream&, const Tensor&, const Tensor&) {
  missing("relu_backward");
}
__attribute__((weak)) Tensor clamp(const Stream&, const Tensor&, double, double) {
  missing("clamp");
}
__attribute__((weak)) void accumulate(const Stream&, Tensor&, const Tensor&) {
  missing("accumulate");
}
__attribute__((weak)) Tensor dropout(const Stream&, const Tensor&, float, const RandomKey&) {
  missing("dropout");
}
__attribute__((weak)) Tensor affine(const Stream&, const Tensor&, double, double) {
  missing("affine");
}
__attribute__((weak)) Tensor clamp_backward(const Stream&, const Tensor&, const Tensor&, double,
                                            double) {
  missing("clamp_backward");
}
__attribute__((weak)) Tensor activate(const Stream&, ActivationFunction, const Tensor&) {
  missing("activate");
}
__attribute__((weak)) Tensor activate_backward(const Stream&, ActivationFunction, const Tensor&,
                                               const Tensor&) {
  missing("activate_backward");
}
__attribute__((weak)) Tensor arithmetic(const Stream&, ArithmeticOperation, const Tensor&,
                                        const Tensor&) {
  missing("arithmetic");
}
__attribute__((weak)) Tensor broadcast(const Stream&, const Tensor&, const Shape&, Layout, double) {
  missing("broadcast");
}
__attribute__((weak)) Tensor sum_to(const Stream&, const Tensor&, const Tensor&, const Shape&,
                                    double) {
  missing("sum_to");
}
__attribute__((weak)) Tensor softmax(const Stream&, const Tensor&, int, bool) {
  missing("softmax");
}
__attribute__((weak)) Tensor softmax_backward(const Stream&, const Tensor&, const Tensor&, int,
                                              bool) {
  missing("softmax_backward");
}
__attribute__((weak)) ChannelMoments channel_moments(const Stream&, const Tensor&) {
  missing("channel_moments");
}
__attribute__((weak)) Tensor batch_norm(const Stream&, const Tensor&, const Tensor&, const Tensor&,
                                        const ChannelMoments&, double, const NormEpilogue&) {
  missing("batch_norm");
}
__attribute__((weak)) NormGradients batch_norm_backward(const Stream&, const Tensor&, const Tensor&,
                                                        const Tensor&, const Tensor&, const Tensor&,
                                                        const ChannelMoments&, double,
                                                        const NormEpilogue&, bool) {
  missing("batch_norm_backward");
}
__attribute__((weak)) LayerNormOutput layer_norm(const Stream&, const Tensor&, const Tensor&,
                                                 const Tensor&, std::int64_t, double) {
  missing("layer_norm");
}
__attribute__((weak)) NormGradients layer_norm_backward(const Stream&, const Tensor&, const Tensor&,
                                                        const Tensor&, const LayerNormOutput&,
                                                        std::int64_t) {
  missing("layer_norm_backward");
}
__attribute__((weak)) Tensor max_pool(const Stream&, const Tensor&, const PoolOptions&) {
  missing("max_pool");
}
__attribute__((weak)) Tensor max_pool_backward(const Stream&, const Tensor&, const Tensor&,
                                               const PoolOptions&) {
  missing("max_pool_backward");
}
__attribute__((weak)) Tensor average_pool(const Stream&, const Tensor&, const PoolOptions&) {
  missing("average_pool");
}
__attribute__((weak)) Tensor average_pool_backward(const Stream&, const Tensor&, const Shape&,
                                                   const PoolOptions&) {
  missing("average_pool_backward");
}
__attribute__((weak)) Tensor adaptive_average_pool(const Stream&, const Tensor&, std::int64_t,
                                                   std::int64_t) {
  missing("adaptive_average_pool");
}
__attribute__((weak)) Tensor adaptive_average_pool_backward(const Stream&, const Tensor&,
                                                            const Shape&) {
  missing("adaptive_average_pool_backward");
}
__attribute__((weak)) LossOutput softmax_cross_entropy(const Stream&, const Tensor&, const Tensor&,
                                                       double, bool, double, const Tensor&) {
  missing("softmax_cross_entropy");
}
__attribute__((weak)) LossOutput squared_error(const Stream&, const Tensor&, const Tensor&, double,
                                               bool) {
  missing("squared_error");
}
__attribute__((weak)) LossOutput binary_cross_entropy(const Stream&, const Tensor&, const Tensor&,
                                                      double, bool) {
  missing("binary_cross_entropy");
}
__attribute__((weak)) void momentum_step(const Stream&, const MomentumStep&, const Tensor&,
                                         const Tensor&, const Tensor&, Tensor&, Tensor&) {
  missing("momentum_step");
}
__attribute__((weak)) void adam_step(const Stream&, const AdamStep&, const Tensor&, const Tensor&,
                                     const Tensor&, const Tensor&, Tensor&, Tensor&, Tensor&) {
  missing("adam_step");
}
__attribute__((weak)) void copy_elements(const Stream&, const Shape&, const Tensor&,
                                         const ElementPlaces&, Tensor&, const ElementPlaces&) {
  missing("copy_elements");
}
__attribute__((weak)) Tensor matmul(const Stream&, const Tensor&, const Tensor&,
                                    const MatmulOptions&, const Shape&) {
  missing("matmul");
}
__attribute__((weak)) Tensor embedding(const Stream&, const Tensor&, const Tensor&) {
  missing("embedding");
}
__attribute__((weak)) void embedding_backward(const Stream&, const Tensor&, const Tensor&,
                                              Tensor&) {
  missing("embedding_backward");
}
__attribute__((weak)) AttentionOutput attention(const Stream&, const Tensor&, const Tensor&,
                                                const Tensor&, const Tensor&,
                                                const AttentionOptions&) {
  missing("attention");
}
__attribute__((weak)) AttentionGradients attention_backward(const Stream&, const Tensor&,
                                                            const Tensor&, const Tensor&,
                                                            const Tensor&, const Tensor&,
                                                            const AttentionOutput&,
                                                            const AttentionOptions&) {
  missing("attention_backward");
}
}  // namespace troupe::cuda
