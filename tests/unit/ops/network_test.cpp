#include "ops/nn/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string_view>

#include "image_models.h"
#include "ops/loss.h"
#include "ops/optim/sgd.h"
#include "runtime/error.h"

namespace troupe {
namespace {

using testing_ops::mnist_samples;

ModelSource small_resnet() { return WideResNet{.widths = {4, 4, 6, 8}, .dropout = 0.2}; }

Tensor images(std::int64_t count) {
  Tensor result = Tensor::empty(Shape{count, 1, 28, 28}, DType::f32, Device::cpu());
  const RandomKey key{.seed = 7};
  for (std::int64_t e = 0; e < result.element_count(); ++e)
    result.data<float>()[e] = uniform_float(key.block(static_cast<std::uint32_t>(e))[0]) - 0.5f;
  return result;
}

Tensor classes(std::int64_t count) {
  Tensor result = Tensor::empty(Shape{count}, DType::i64, Device::cpu());
  for (std::int64_t i = 0; i < count; ++i) result.data<std::int64_t>()[i] = i % 10;
  return result;
}

Network whole(const ModelSource& source, DType dtype) {
  Model model = source.make(mnist_samples);
  const std::size_t blocks = model.blocks.size();
  return Network(std::move(model), 0, blocks, dtype, Stream{});
}

/// With the initial state of seed 3.
Network initialized(const ModelSource& options, DType dtype) {
  Network network = whole(options, dtype);
  network.use(initial_state(network.spec(), dtype, 3));
  return network;
}

Tensor momentum_of(const StateVersion& state) { return state.optimizer_state.at(0).tensor; }

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

/// The bytes 0, 1, … and what they stand for.
Tensor pixels(std::int64_t count) {
  Tensor result = Tensor::empty(Shape{count, 1, 28, 28}, DType::u8, Device::cpu());
  for (std::int64_t e = 0; e < result.element_count(); ++e)
    result.data<std::uint8_t>()[e] = static_cast<std::uint8_t>(e);
  return result;
}
Tensor pixel_values(DType dtype) {
  Tensor result = Tensor::empty(Shape{1, 256}, dtype, Device::cpu());
  for (std::int64_t e = 0; e < 256; ++e) {
    const double value = static_cast<double>(e) / 255 - 0.5;
    dtype == DType::f64 ? result.data<double>()[e] = value
                        : result.data<float>()[e] = static_cast<float>(value);
  }
  return result;
}

Tensor loss_gradient(const ForwardPass& pass) {
  const std::int64_t count = pass.result().dim(0);
  return softmax_cross_entropy({}, pass.result(), classes(count), 1.0 / static_cast<double>(count),
                               true)
      .logits_grad;
}

class EachModel : public testing::TestWithParam<const char*> {};

TEST_P(EachModel, LearnsAFewSamplesByHeart) {
  Network network = whole(testing_ops::small_model(
                              GetParam(), {.wide_resnet_widths = {4, 4, 6, 8}, .mlp_widths = {16}}),
                          DType::f32);
  network.use(initial_state(network.spec(), DType::f32, 1));
  const Tensor x = images(10);
  double first = 0, last = 0;
  for (std::uint32_t step = 0; step < 30; ++step) {
    auto pass = network.forward(x, {.seed = 1, .step = step}, false);
    const LossOutput loss = softmax_cross_entropy({}, pass->result(), classes(10), 0.1, true);
    EXPECT_FALSE(network.backward(*pass, loss.logits_grad).defined());
    (step == 0 ? first : last) = read_totals({}, loss).loss_sum / 10;
    network.use(network.step(Sgd{.momentum = 0.9}, 0.05, pass->gradients, {pass->statistics}));
  }
  EXPECT_NEAR(first, std::log(10.0), 1.0);
  EXPECT_LT(last, 0.5 * first);
  EXPECT_EQ(network.state()->step, 30);
}

INSTANTIATE_TEST_SUITE_P(Network, EachModel, testing::Values("wide_resnet", "mnist_cnn", "mlp"));

TEST(Network, TakesPixelsForTheNumbersThatTheyStandFor) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Network bytes = initialized(small_resnet(), dtype),
            numbers = initialized(small_resnet(), dtype);
    const Tensor x = pixels(3);
    const Tensor same = kernels({}, dtype).look_up({}, x, pixel_values(dtype), Layout::row_major);
    bytes.take_pixels(pixel_values(dtype));
    EXPECT_TRUE(same_bits(bytes.evaluate(x), numbers.evaluate(same)));
    const auto pass = bytes.forward(x, {}, true), expected = numbers.forward(same, {}, true);
    EXPECT_TRUE(same_bits(pass->result(), expected->result()));
    const Tensor gradient = bytes.backward(*pass, loss_gradient(*pass));
    EXPECT_TRUE(same_bits(gradient, numbers.backward(*expected, loss_gradient(*expected))));
    EXPECT_EQ(gradient.dtype(), dtype);
    EXPECT_TRUE(same_bits(pass->gradients, expected->gradients));
  }
}

TEST(Network, RefusesBytesOfWhichItDoesNotKnowTheNumbers) {
  Network network = initialized(small_resnet(), DType::f32);
  try {
    (void)network.evaluate(pixels(1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_options);
    EXPECT_NE(error.remedy().find("NetworkProgramOptions the pixels"), std::string::npos);
  }
}

TEST(Network, IsBitwiseIdenticalForAnyPartition) {
  Network one = initialized(small_resnet(), DType::f32);
  const RandomKey random{.seed = 3, .step = 5, .micro_batch = 2};
  const Tensor x = images(4);
  auto pass = one.forward(x, random, true);
  const Tensor grad = loss_gradient(*pass);
  const Tensor whole_input = one.backward(*pass, grad);

  const std::size_t blocks = small_resnet().make(mnist_samples).blocks.size();
  for (std::size_t cut = 1; cut < blocks; ++cut) {
    Network head(small_resnet().make(mnist_samples), 0, cut, DType::f32, Stream{});
    Network tail(small_resnet().make(mnist_samples), cut, blocks, DType::f32, Stream{});
    head.use(initial_state(head.spec(), DType::f32, 3));
    tail.use(initial_state(tail.spec(), DType::f32, 3));
    auto first = head.forward(x, random, true);
    auto second = tail.forward(first->result(), random, true);
    EXPECT_TRUE(same_bits(second->result(), pass->result())) << "cut before block " << cut;
    const Tensor input = head.backward(*first, tail.backward(*second, grad));
    EXPECT_TRUE(same_bits(input, whole_input)) << "cut before block " << cut;
    const auto parts = head.spec().parameter_elements();
    EXPECT_TRUE(same_bits(first->gradients, pass->gradients.narrow(0, parts)));
    EXPECT_TRUE(same_bits(second->gradients,
                          pass->gradients.narrow(parts, tail.spec().parameter_elements())));
  }
}

TEST(Network, GivesTheSameGradientsWhenTheHalvesRunApart) {
  Network network = initialized(small_resnet(), DType::f32);
  const Tensor x = images(4);
  auto together = network.forward(x, {.seed = 3}, true);
  auto apart = network.forward(x, {.seed = 3}, true);
  const Tensor grad = loss_gradient(*together);
  const Tensor a = network.backward(*together, grad);
  const Tensor b = network.backward_inputs(*apart, grad);
  EXPECT_FALSE(apart->gradients.defined());
  network.backward_weights(*apart);
  EXPECT_TRUE(same_bits(a, b));
  EXPECT_TRUE(same_bits(together->gradients, apart->gradients));
}

TEST(Network, HoldsAnOutputThatWasTakenNoLonger) {
  Network network = initialized(small_resnet(), DType::f32);
  const Tensor x = images(4);
  const auto kept = network.forward(x, {.seed = 3}, true);
  const auto given = network.forward(x, {.seed = 3}, true);
  const Tensor grad = loss_gradient(*kept);
  const Tensor output = given->take_result();
  EXPECT_TRUE(same_bits(output, kept->result()));
  EXPECT_EQ(output.storage().use_count(), 1) << "the last layer is linear, which saves its input";
  EXPECT_TRUE(same_bits(network.backward(*given, grad), network.backward(*kept, grad)));
  EXPECT_TRUE(same_bits(given->gradients, kept->gradients));
}

TEST(Network, GivesTheSameGradientsInPartsAfterItsInputHalf) {
  Network network = initialized(small_resnet(), DType::f32);
  const Tensor x = images(4);
  auto at_once = network.forward(x, {.seed = 3}, true);
  const Tensor grad = loss_gradient(*at_once);
  const Tensor input = network.backward(*at_once, grad);
  auto apart = network.forward(x, {.seed = 3}, true);
  EXPECT_TRUE(same_bits(network.backward_inputs(*apart, grad), input));
  std::int64_t begin = network.spec().parameter_elements();
  for (std::size_t block = network.blocks().size(); block-- > 0;) {
    SCOPED_TRACE(block);
    const Tensor part = network.backward_to(*apart, block);
    begin -= part.element_count();
    EXPECT_TRUE(same_bits(part, at_once->gradients.narrow(begin, part.element_count())));
  }
  EXPECT_EQ(begin, 0);
}

TEST(Network, GivesTheSameGradientsInParts) {
  Network network = initialized(small_resnet(), DType::f32);
  const Tensor x = images(4);
  auto at_once = network.forward(x, {.seed = 3}, true);
  const Tensor grad = loss_gradient(*at_once);
  const Tensor input = network.backward(*at_once, grad);
  const std::size_t blocks = network.blocks().size();
  for (std::size_t part = 1; part < blocks; ++part) {  // blocks of a part
    SCOPED_TRACE(part);
    auto pass = network.forward(x, {.seed = 3}, true);
    network.begin_backward(*pass, grad);
    std::vector<Tensor> parts;
    std::int64_t begin = network.spec().parameter_elements();
    for (std::size_t block = blocks; block > 0;) {
      block -= std::min(part, block);
      parts.push_back(network.backward_to(*pass, block));
      begin -= parts.back().element_count();
      EXPECT_TRUE(
          same_bits(parts.back(), at_once->gradients.narrow(begin, parts.back().element_count())));
    }
    EXPECT_EQ(begin, 0);
    EXPECT_TRUE(same_bits(network.end_backward(*pass), input));
    // Two steps: the second has momentum.
    const Optimizer optimizer = Sgd{.momentum = 0.9, .weight_decay = 0.01};
    Network other = whole(small_resnet(), DType::f32);
    other.use(network.state());
    Network third = whole(small_resnet(), DType::f32);
    third.use(network.state());
    for (int step = 0; step < 2; ++step) {
      other.use(other.step(optimizer, 0.1, parts, {pass->statistics}));
      third.use(third.step(optimizer, 0.1, at_once->gradients, {pass->statistics}));
      EXPECT_TRUE(same_bits(other.state()->weights, third.state()->weights));
      EXPECT_TRUE(same_bits(momentum_of(*other.state()), momentum_of(*third.state())));
    }
  }
}

/// All parameters but those of the last block, whose names begin otherwise.
std::function<bool(std::string_view)> all_but_last(const Network& network) {
  return [last = network.spec().parameters().back().name.substr(
              0, network.spec().parameters().back().name.find('.'))](std::string_view name) {
    return !name.starts_with(last);
  };
}

TEST(Network, ComputesNoGradientsOfFrozenParametersAndTheOthersToTheSameBits) {
  Network trained = initialized(small_resnet(), DType::f32);
  for (const bool halves : {false, true})
    for (const bool wants_input_gradient : {false, true}) {
      SCOPED_TRACE(::testing::Message() << halves << wants_input_gradient);
      Network frozen = initialized(small_resnet(), DType::f32);
      const auto freezes = all_but_last(frozen);
      frozen.freeze(freezes);
      auto whole = trained.forward(images(4), {.seed = 3}, wants_input_gradient);
      auto pass = frozen.forward(images(4), {.seed = 3}, wants_input_gradient);
      if (wants_input_gradient)
        EXPECT_EQ(pass->tape.recorded(), whole->tape.recorded());
      else  // nothing before the last block is kept
        EXPECT_LT(pass->tape.recorded(), 4u);
      EXPECT_LE(pass->tape.saved_bytes(), whole->tape.saved_bytes());
      const Tensor grad = loss_gradient(*whole);
      const Tensor expected = trained.backward(*whole, grad);
      Tensor input;
      if (halves) {
        input = frozen.backward_inputs(*pass, grad);
        frozen.backward_weights(*pass);
      } else {
        input = frozen.backward(*pass, grad);
      }
      EXPECT_EQ(input.defined(), wants_input_gradient);
      if (wants_input_gradient) {
        EXPECT_TRUE(same_bits(input, expected));
      }
      EXPECT_TRUE(same_bits(pass->statistics, whole->statistics));
      const auto& parameters = frozen.spec().parameters();
      const auto left = frozen.spec().parameter_views(pass->gradients);
      const auto right = frozen.spec().parameter_views(whole->gradients);
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        SCOPED_TRACE(parameters[i].name);
        EXPECT_EQ(parameters[i].frozen, freezes(parameters[i].name));
        if (parameters[i].frozen)
          EXPECT_TRUE(std::ranges::all_of(left[i].elements<float>(),
                                          [](float value) { return value == 0; }));
        else
          EXPECT_TRUE(same_bits(left[i], right[i]));
      }
    }
}

TEST(Network, RefusesPartsThatAreNotItsWholeGradient) {
  Network network = initialized(small_resnet(), DType::f32);
  auto pass = network.forward(images(4), {.seed = 3}, false);
  network.begin_backward(*pass, loss_gradient(*pass));
  std::vector<Tensor> parts{network.backward_to(*pass, 3), network.backward_to(*pass, 0)};
  EXPECT_NO_THROW(network.step(Sgd{}, 0.1, parts, {}));
  parts.push_back(parts[1]);
  EXPECT_THROW(network.step(Sgd{}, 0.1, parts, {}), Error);
  EXPECT_THROW(network.step(Sgd{}, 0.1, std::vector<Tensor>{parts[0], Tensor()}, {}), Error);
}

TEST(Network, StaysAsItIsInAStepWithoutGradient) {
  Network network = initialized(small_resnet(), DType::f32);
  auto pass = network.forward(images(4), {.seed = 3}, false);
  network.backward(*pass, loss_gradient(*pass));
  network.use(network.step(Sgd{.momentum = 0.9}, 0.1, pass->gradients, {pass->statistics}));
  const auto before = network.state();
  const auto after = network.step(Sgd{.momentum = 0.9}, 0.1, std::vector<Tensor>{}, {});
  EXPECT_EQ(after->step, before->step + 1);
  EXPECT_TRUE(same_bits(after->weights, before->weights));
  EXPECT_TRUE(same_bits(momentum_of(*after), momentum_of(*before)));
  EXPECT_TRUE(same_bits(after->buffers, before->buffers));
  EXPECT_EQ(after->counters, before->counters);
}

TEST(Network, LeavesThePaddingOfItsGradientsZero) {
  Network network = initialized(small_resnet(), DType::f32);
  auto pass = network.forward(images(4), {.seed = 3}, false);
  network.backward(*pass, loss_gradient(*pass));
  std::int64_t end = 0, padding = 0;
  for (const ParameterSpec& parameter : network.spec().parameters()) {
    for (; end < parameter.offset; ++end, ++padding)
      EXPECT_EQ(pass->gradients.data<float>()[end], 0.0f) << "element " << end;
    end = parameter.offset + parameter.shape.element_count();
  }
  EXPECT_GT(padding, 0);
}

TEST(Network, EvaluatesWithRunningStatisticsAndWithoutDropout) {
  Network network = initialized(small_resnet(), DType::f32);
  const Tensor x = images(4);
  const Tensor all = network.evaluate(x);
  // No other sample plays a part, but oneDNN may add up in another order for another batch size.
  const Tensor one = network.evaluate(x.narrow(2, 1)), same = all.narrow(2, 1);
  ASSERT_EQ(one.shape(), same.shape());
  for (std::int64_t i = 0; i < one.element_count(); ++i)
    EXPECT_NEAR(one.data<float>()[i], same.data<float>()[i], 1e-5) << "logit " << i;
}

TEST(Network, ATripKeepsTheVersionThatItBeganWith) {
  Network network = initialized(small_resnet(), DType::f32);
  const Tensor x = images(4);
  auto before = network.forward(x, {}, true);
  auto during = network.forward(x, {}, true);
  const Tensor grad = loss_gradient(*before);
  const Tensor expected = network.backward(*before, grad);
  network.use(initial_state(network.spec(), DType::f32, 4));
  EXPECT_TRUE(same_bits(network.backward(*during, grad), expected));
}

TEST(Network, FoldsStatisticsInTheOrderGivenAndCountsThem) {
  Network network = initialized(small_resnet(), DType::f64);
  const auto& spec = network.spec();
  const Tensor zero = Tensor::zeros(Shape{spec.parameter_elements()}, DType::f64);
  const Tensor a = Tensor::zeros(Shape{spec.buffer_elements()}, DType::f64), b = a.clone();
  a.data<double>()[0] = 1.0;
  b.data<double>()[0] = 10.0;
  const StatePtr next = network.step(Sgd{}, 0.1, zero, {a, b});
  EXPECT_DOUBLE_EQ(next->buffers.data<double>()[0], 0.9 * (0.9 * 0.0 + 0.1 * 1.0) + 0.1 * 10.0);
  EXPECT_EQ(next->counters.front(), 2);
  EXPECT_TRUE(next->optimizer_state.empty());
  EXPECT_EQ(network.state()->counters.front(), 0);
}

TEST(Network, RefusesAnEmptyOrWrongRangeOfBlocks) {
  EXPECT_THROW(Network(small_resnet().make(mnist_samples), 2, 2, DType::f32, Stream{}), Error);
  EXPECT_THROW(Network(small_resnet().make(mnist_samples), 0, 99, DType::f32, Stream{}), Error);
}

TEST(Network, RefusesTheStateOfAnotherNetwork) {
  Network network = whole(small_resnet(), DType::f32);
  Network other = whole(Mlp{}, DType::f32);
  EXPECT_THROW(network.use(initial_state(other.spec(), DType::f32, 1)), Error);
  EXPECT_THROW(network.use(initial_state(network.spec(), DType::f64, 1)), Error);
}

TEST(Network, RefusesToRunWithoutAState) {
  Network network = whole(small_resnet(), DType::f32);
  EXPECT_THROW(network.evaluate(images(1)), Error);
}

}  // namespace
}  // namespace troupe
