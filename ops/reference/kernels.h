#pragma once
// The functions behind table.h, a file a family; KernelTable says what each one does.

#include <memory>

#include "ops/kernels.h"

namespace troupe::reference {

template <class T>
std::unique_ptr<ConvolutionKernel> convolution(const ConvolutionOptions& options);
template <class T>
std::unique_ptr<LinearKernel> linear(const LinearOptions& options);

template <class T>
void reorder(const Stream&, const Tensor& from, Tensor& to);

template <class T>
Tensor relu(const Stream&, const Tensor& x);
template <class T>
Tensor relu_backward(const Stream&, const Tensor& y, const Tensor& grad);
template <class T>
Tensor add(const Stream&, const Tensor& a, const Tensor& b);
template <class T>
void accumulate(const Stream&, Tensor& a, const Tensor& b);
template <class T>
Tensor dropout(const Stream&, const Tensor& x, float probability, const RandomKey& random);

template <class T>
ChannelMoments channel_moments(const Stream&, const Tensor& x);
template <class T>
Tensor batch_norm(const Stream&, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const ChannelMoments& moments, double epsilon, const NormEpilogue& epilogue);
template <class T>
NormGradients batch_norm_backward(const Stream&, const Tensor& grad, const Tensor& x,
                                  const Tensor& z, const Tensor& weight, const Tensor& bias,
                                  const ChannelMoments& moments, double epsilon,
                                  const NormEpilogue& epilogue, bool batch_moments);

template <class T>
Tensor max_pool(const Stream&, const Tensor& x, const PoolOptions& options);
template <class T>
Tensor max_pool_backward(const Stream&, const Tensor& grad, const Tensor& x,
                         const PoolOptions& options);
template <class T>
Tensor average_pool(const Stream&, const Tensor& x, const PoolOptions& options);
template <class T>
Tensor average_pool_backward(const Stream&, const Tensor& grad, const Shape& x_shape,
                             const PoolOptions& options);
template <class T>
Tensor adaptive_average_pool(const Stream&, const Tensor& x, std::int64_t out_h,
                             std::int64_t out_w);
template <class T>
Tensor adaptive_average_pool_backward(const Stream&, const Tensor& grad, const Shape& x_shape);

template <class T>
LossOutput softmax_cross_entropy(const Stream&, const Tensor& logits, const Tensor& targets,
                                 double scale, bool with_gradient);

template <class T>
void sgd(const Stream&, const SgdOptions& options, const Tensor& weights, const Tensor& gradient,
         const Tensor& momentum, Tensor& new_weights, Tensor& new_momentum);

}  // namespace troupe::reference
