// Several steps of SGD, on every kernel table, against PyTorch's documented algorithm.
#include "ops/optim/sgd.h"

#include <cmath>

#include "tests/unit/ops/vector_support.h"

namespace troupe {
namespace {

// https://pytorch.org/docs/stable/generated/torch.optim.SGD.html, with dampening 0, line by line;
// b has no value before the first step.
struct DocumentedSgd {
  double gamma, mu, lambda;
  bool nesterov;
  std::vector<double> theta, b = {};

  void step(const std::vector<double>& gradient) {
    const bool first = b.empty();
    b.resize(theta.size());
    for (std::size_t i = 0; i < theta.size(); ++i) {
      double g = gradient[i];
      if (lambda != 0) g += lambda * theta[i];
      if (mu != 0) {
        b[i] = first ? g : mu * b[i] + g;
        g = nesterov ? g + mu * b[i] : b[i];
      }
      theta[i] -= gamma * g;
    }
  }
};

/// The gradient of no function in particular: it only has to differ from step to step.
double gradient_of(std::size_t i, int step) {
  return std::sin(1.0 + 0.37 * double(i) + 2.1 * step);
}

template <class T>
void follows_the_document(double tolerance) {
  constexpr std::int64_t count = 37;
  for (const double momentum : {0.0, 0.9})
    for (const double decay : {0.0, 0.05})
      for (const bool nesterov : {false, true}) {
        if (nesterov && momentum == 0) continue;
        SCOPED_TRACE(::testing::Message() << "momentum " << momentum << ", decay " << decay
                                          << ", nesterov " << nesterov);
        DocumentedSgd documented{0.1, momentum, decay, nesterov, {}};
        Tensor weights = Tensor::empty({count}, dtype_of<T>, Device::cpu()),
               buffer = Tensor::zeros({count}, dtype_of<T>);
        Tensor gradient = Tensor::empty({count}, dtype_of<T>, Device::cpu());
        for (std::size_t i = 0; i < count; ++i) {
          weights.data<T>()[i] = static_cast<T>(std::cos(double(i)));
          documented.theta.push_back(weights.data<T>()[i]);
        }
        for (int step = 0; step < 5; ++step) {
          std::vector<double> same;
          for (std::size_t i = 0; i < count; ++i) {
            gradient.data<T>()[i] = static_cast<T>(gradient_of(i, step));
            same.push_back(gradient.data<T>()[i]);
          }
          const Sgd sgd{.momentum = momentum, .weight_decay = decay, .nesterov = nesterov};
          const Tensor before = step == 0 ? Tensor() : buffer;
          const std::size_t tensors = sgd.state_names().size();
          sgd.update({}, {.updates = step, .lr = 0.1},
                     {weights, gradient, std::span(&before, tensors), weights,
                      std::span(&buffer, tensors)});
          documented.step(same);
          for (std::size_t i = 0; i < count; ++i)
            ASSERT_NEAR(weights.data<T>()[i], documented.theta[i], tolerance)
                << "weight " << i << " after step " << step + 1;
        }
      }
}

template <class T>
void keeps_infinite_weights() {
  Tensor weights = Tensor::empty({37}, dtype_of<T>, Device::cpu()), momentum = weights.clone();
  const Tensor gradient = Tensor::zeros({37}, dtype_of<T>);
  for (T& value : weights.template elements<T>()) value = -INFINITY;
  Sgd{.momentum = 0.9}.update({}, {.updates = 0, .lr = 0.1},
                              {weights, gradient, {}, weights, std::span(&momentum, 1)});
  for (const T value : weights.template elements<T>()) ASSERT_EQ(value, -INFINITY);
  for (const T value : momentum.template elements<T>()) ASSERT_EQ(value, T(0));
}

// Such as those of an attention mask that is a parameter.
TEST(Sgd, KeepsInfiniteWeightsWithoutADecay) {
  keeps_infinite_weights<double>();
  keeps_infinite_weights<float>();
}

TEST(Sgd, FollowsPyTorchsDocumentInF64) { follows_the_document<double>(1e-14); }
TEST(Sgd, FollowsPyTorchsDocumentInF32) { follows_the_document<float>(2e-6); }

}  // namespace
}  // namespace troupe
