// Several steps of Adam and AdamW, on every kernel table, against PyTorch's documented algorithm.
#include "ops/optim/adam.h"

#include <cmath>

#include "tests/unit/ops/vector_support.h"

namespace troupe {
namespace {

// https://pytorch.org/docs/stable/generated/torch.optim.AdamW.html and …/torch.optim.Adam.html,
// without amsgrad and maximize, line by line.
struct DocumentedAdam {
  double gamma, beta1, beta2, epsilon, lambda;
  bool decoupled;
  std::vector<double> theta, m = {}, v = {};

  void step(const std::vector<double>& gradient, int t) {
    m.resize(theta.size());
    v.resize(theta.size());
    for (std::size_t i = 0; i < theta.size(); ++i) {
      double g = gradient[i];
      if (decoupled)
        theta[i] -= gamma * lambda * theta[i];
      else
        g += lambda * theta[i];
      m[i] = beta1 * m[i] + (1 - beta1) * g;
      v[i] = beta2 * v[i] + (1 - beta2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(beta1, t)), v_hat = v[i] / (1 - std::pow(beta2, t));
      theta[i] -= gamma * m_hat / (std::sqrt(v_hat) + epsilon);
    }
  }
};

template <class T, bool decoupled>
void follows_the_document(double tolerance, double weight_decay, double epsilon) {
  SCOPED_TRACE(::testing::Message() << (decoupled ? "AdamW" : "Adam") << " with decay "
                                    << weight_decay << ", epsilon " << epsilon);
  constexpr std::int64_t count = 37;
  const AdamOf<decoupled> adam{
      .betas = {0.8, 0.95}, .epsilon = epsilon, .weight_decay = weight_decay};
  DocumentedAdam documented{0.1, 0.8, 0.95, epsilon, weight_decay, decoupled, {}};
  Tensor weights = Tensor::empty({count}, dtype_of<T>, Device::cpu());
  Tensor gradient = Tensor::empty({count}, dtype_of<T>, Device::cpu());
  std::array<Tensor, 2> state;
  for (std::size_t i = 0; i < count; ++i) {
    weights.data<T>()[i] = static_cast<T>(std::cos(double(i)));
    documented.theta.push_back(weights.data<T>()[i]);
  }
  for (int step = 0; step < 6; ++step) {
    std::vector<double> same;
    for (std::size_t i = 0; i < count; ++i) {
      gradient.data<T>()[i] = static_cast<T>(std::sin(1.0 + 0.37 * double(i) + 2.1 * step));
      same.push_back(gradient.data<T>()[i]);
    }
    std::array<Tensor, 2> next;
    for (Tensor& tensor : next) tensor = Tensor::empty({count}, dtype_of<T>, Device::cpu());
    adam.update({}, {.updates = step, .lr = 0.1}, {weights, gradient, state, weights, next});
    state = next;
    documented.step(same, step + 1);
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_NEAR(weights.data<T>()[i], documented.theta[i], tolerance)
          << "weight " << i << " after step " << step + 1;
  }
}

template <class T>
void both_follow_the_document(double tolerance) {
  for (const double decay : {0.0, 0.05})
    for (const double epsilon : {0.0, 1e-8, 0.1}) {
      follows_the_document<T, false>(tolerance, decay, epsilon);
      follows_the_document<T, true>(tolerance, decay, epsilon);
    }
}

TEST(Adam, FollowsPyTorchsDocumentInF64) { both_follow_the_document<double>(1e-13); }
TEST(Adam, FollowsPyTorchsDocumentInF32) { both_follow_the_document<float>(5e-6); }

}  // namespace
}  // namespace troupe
