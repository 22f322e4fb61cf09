#include "ops/nn/state.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "image_models.h"
#include "runtime/error.h"
#include "runtime/tensor/cast.h"

namespace troupe {
namespace {

using testing::IsEmpty;

StateSpec spec_of(const ModelSource& source, std::size_t first = 0, std::size_t last = 99) {
  Model model = source.make(testing_ops::mnist_samples);
  StateSpec spec;
  for (std::size_t i = first; i < std::min(last, model.blocks.size()); ++i)
    model.blocks[i]->declare(spec);
  return spec;
}

StateSpec small_spec() {
  StateSpec spec;
  spec.add_parameter("a", Shape{3, 7}, {Initializer::Kind::uniform, 0.25});
  spec.add_parameter("b", Shape{16}, {Initializer::Kind::constant, 2.0});
  spec.add_parameter("c", Shape{1}, {Initializer::Kind::constant, -1.0});
  spec.add_buffer("mean", Shape{5}, 0.0, 0.1);
  spec.add_buffer("variance", Shape{5}, 1.0, 0.1);
  spec.add_counter("count");
  return spec;
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(StateSpec, LaysParametersBehindOneAnotherOnMultiplesOfSixteen) {
  const StateSpec spec = small_spec();
  EXPECT_EQ(spec.parameters()[0].offset, 0);
  EXPECT_EQ(spec.parameters()[1].offset, 32);
  EXPECT_EQ(spec.parameters()[2].offset, 48);
  EXPECT_EQ(spec.parameter_elements(), 64);
  EXPECT_EQ(spec.parameter_count(), 38);
  EXPECT_EQ(spec.buffers()[1].offset, 16);
  EXPECT_EQ(spec.buffer_elements(), 32);
}

TEST(StateSpec, ClearsThePaddingAndNothingElse) {
  const StateSpec spec = small_spec();
  Tensor flat = Tensor::empty(Shape{64}, DType::f32, Device::cpu());
  std::fill_n(flat.data<float>(), 64, 1.0f);
  spec.clear_padding({}, flat);
  const auto ones = std::count(flat.data<float>(), flat.data<float>() + 64, 1.0f);
  EXPECT_EQ(ones, spec.parameter_count());
  for (const Tensor& view : spec.parameter_views(flat))
    for (const float value : view.elements<float>()) EXPECT_EQ(value, 1.0f);
}

TEST(InitialState, FollowsTheInitializersAndLeavesPaddingZero) {
  const StateSpec spec = small_spec();
  const StatePtr state = initial_state(spec, DType::f32, 1);
  const float* w = state->weights.data<float>();
  EXPECT_TRUE(std::all_of(w, w + 21, [](float v) { return std::abs(v) <= 0.25f && v != 0; }));
  EXPECT_TRUE(std::all_of(w + 21, w + 32, [](float v) { return v == 0; }));
  EXPECT_TRUE(std::all_of(w + 32, w + 48, [](float v) { return v == 2; }));
  EXPECT_EQ(w[48], -1.0f);
  EXPECT_EQ(state->buffers.data<float>()[16], 1.0f);
  EXPECT_EQ(state->counters, std::vector<std::int64_t>{0});
  EXPECT_EQ(state->step, 0);
}

TEST(InitialState, DoesNotDependOnThePartitionOrThePrecision) {
  const ModelSource model = WideResNet{.widths = {4, 4, 6, 8}};
  const auto all =
      named_tensors(spec_of(model), *initial_state(spec_of(model), DType::f32, 9), false);
  const StateSpec tail = spec_of(model, 5);
  const auto part = named_tensors(tail, *initial_state(tail, DType::f64, 9), false);
  std::size_t compared = 0;
  for (const NamedTensor& named : part) {
    const auto same = std::find_if(all.begin(), all.end(),
                                   [&](const NamedTensor& n) { return n.name == named.name; });
    ASSERT_NE(same, all.end()) << named.name;
    if (named.tensor.dtype() != DType::f64) continue;
    for (std::int64_t e = 0; e < named.tensor.element_count(); ++e, ++compared)
      EXPECT_EQ(named.tensor.data<double>()[e], same->tensor.data<float>()[e]) << named.name;
  }
  EXPECT_GT(compared, 500u);
}

TEST(InitialState, DrawsNormalNumbersByTheNameAlone) {
  StateSpec spec, longer;
  const Initializer initializer{Initializer::Kind::normal, 0.5};
  spec.add_parameter("weight", Shape{40001}, initializer);
  longer.add_parameter("other", Shape{3}, initializer);
  longer.add_parameter("weight", Shape{40001}, initializer);
  const Tensor numbers = spec.parameter_views(initial_state(spec, DType::f64, 1)->weights)[0];
  const Tensor again = longer.parameter_views(initial_state(longer, DType::f32, 1)->weights)[1];
  double sum = 0, squares = 0, fourth = 0;
  for (std::int64_t e = 0; e < numbers.element_count(); ++e) {
    const double value = numbers.data<double>()[e];
    EXPECT_EQ(value, again.data<float>()[e]) << e;
    sum += value, squares += value * value, fourth += value * value * value * value;
  }
  const auto count = static_cast<double>(numbers.element_count());
  EXPECT_NEAR(sum / count, 0.0, 0.01);
  EXPECT_NEAR(squares / count, 0.25, 0.01);
  EXPECT_NEAR(fourth / squares / 0.25, 3.0, 0.2);  // the kurtosis of a normal distribution
}

TEST(InitialState, ChangesWithTheSeed) {
  const StateSpec spec = small_spec();
  EXPECT_NE(initial_state(spec, DType::f32, 1)->weights.data<float>()[0],
            initial_state(spec, DType::f32, 2)->weights.data<float>()[0]);
}

// U(-b, b) has the variance b^2 / 3.
TEST(InitialState, IsAsWideAsPyTorchsDefault) {
  const StateSpec spec = spec_of(Mlp{.widths = {64}});
  const StatePtr state = initial_state(spec, DType::f64, 1);
  const auto weight = spec.parameter_views(state->weights)[0];
  double squares = 0;
  for (const double value : weight.elements<double>()) squares += value * value;
  const double variance = squares / static_cast<double>(weight.element_count());
  EXPECT_NEAR(variance * 3 * 784, 1.0, 0.02);
}

TEST(NamedTensors, GoThereAndBackWithTheOptimizer) {
  const StateSpec spec = small_spec();
  StateVersion state = *initial_state(spec, DType::f64, 1);
  state.optimizer_state = {{"momentum", state.weights.clone()}};
  state.counters = {7};
  const auto named = named_tensors(spec, state, true);
  ASSERT_EQ(named.size(), 9u);
  EXPECT_EQ(named[0].name, "a");
  EXPECT_EQ(named[5].name, "count");
  EXPECT_EQ(named[5].tensor.dtype(), DType::i64);
  EXPECT_EQ(named[5].tensor.rank(), 0);
  EXPECT_EQ(named[6].name, "optimizer.momentum.a");
  const StatePtr back =
      state_from(spec, DType::f64, TensorSource::of(named), 12, {"momentum"}, true);
  EXPECT_EQ(back->step, 12);
  EXPECT_EQ(back->counters, std::vector<std::int64_t>{7});
  for (std::int64_t e = 0; e < 64; ++e) {
    EXPECT_EQ(back->weights.data<double>()[e], state.weights.data<double>()[e]);
    EXPECT_EQ(back->optimizer_state.at(0).tensor.data<double>()[e],
              state.weights.data<double>()[e]);
  }
}

TEST(StateFrom, ConvertsToThePrecisionAskedFor) {
  const StateSpec spec = small_spec();
  const StatePtr state = initial_state(spec, DType::f32, 1);
  const TensorSource source = TensorSource::of(named_tensors(spec, *state, false));
  const StatePtr wide = state_from(spec, DType::f64, source, 0, {}, true);
  EXPECT_EQ(wide->weights.data<double>()[3], state->weights.data<float>()[3]);
}

TEST(StateFrom, LeavesMomentumOutWhereNoneWasKept) {
  const StateSpec spec = small_spec();
  const auto named = named_tensors(spec, *initial_state(spec, DType::f32, 1), true);
  EXPECT_THAT(
      state_from(spec, DType::f32, TensorSource::of(named), 0, {"momentum"}, true)->optimizer_state,
      IsEmpty());
}

TEST(StateFrom, LeavesOutTensorsOfTheOptimizerThatItDoesNotKeep) {
  const StateSpec spec = small_spec();
  StateVersion state = *initial_state(spec, DType::f32, 1);
  state.optimizer_state = {{"average", state.weights.clone()}, {"momentum", state.weights.clone()}};
  const auto named = named_tensors(spec, state, true);
  const StatePtr back =
      state_from(spec, DType::f32, TensorSource::of(named), 0, {"momentum"}, true);
  ASSERT_EQ(back->optimizer_state.size(), 1u);
  EXPECT_EQ(back->optimizer_state[0].name, "momentum");
}

TEST(StateFrom, ListsEverythingThatDoesNotFit) {
  const StateSpec spec = small_spec();
  auto named = named_tensors(spec, *initial_state(spec, DType::f32, 1), false);
  named[0].tensor = Tensor::zeros(Shape{7, 3});
  named[1].name = "renamed";
  named[3].tensor = Tensor::zeros(Shape{5}, DType::i32);
  const std::string message =
      message_of([&] { state_from(spec, DType::f32, TensorSource::of(named), 0, {}, true); });
  EXPECT_NE(message.find("a has the shape [7, 3], but in the model [3, 7]"), std::string::npos)
      << message;
  EXPECT_NE(message.find("1 missing (b)"), std::string::npos) << message;
  EXPECT_NE(message.find("mean is i32"), std::string::npos) << message;
  EXPECT_NE(message.find("1 unexpected (renamed)"), std::string::npos) << message;
}

TEST(StateFrom, NamesTheTensorThatIsProbablyMeant) {
  const StateSpec spec = small_spec();
  auto named = named_tensors(spec, *initial_state(spec, DType::f32, 1), false);
  named[0].name = "backbone.a";
  named[3].name = "maen";
  const std::string message =
      message_of([&] { state_from(spec, DType::f32, TensorSource::of(named), 0, {}, true); });
  EXPECT_THAT(message, testing::HasSubstr("mean [like maen of the file]"));
  EXPECT_THAT(message, testing::HasSubstr("backbone.a [like a of the model]"));
}

TEST(StateFrom, RemovesModulesThatTheModelLacks) {
  const StateSpec spec = small_spec();
  const StatePtr state = initial_state(spec, DType::f32, 1);
  for (const char* modules : {"module.", "_orig_mod.", "model._orig_mod.", "net.backbone.x."}) {
    auto named = named_tensors(spec, *state, false);
    for (NamedTensor& tensor : named) tensor.name = modules + tensor.name;
    const StatePtr read = state_from(spec, DType::f32, TensorSource::of(named), 0, {}, true);
    EXPECT_THAT(read->weights.elements<float>(),
                testing::ElementsAreArray(state->weights.elements<float>()))
        << modules;
    named.push_back({"criterion.weight", Tensor::zeros(Shape{1})});
    EXPECT_THROW(state_from(spec, DType::f32, TensorSource::of(named), 0, {}, true), Error);
    const StatePtr most = state_from(spec, DType::f32, TensorSource::of(named), 0, {}, false);
    EXPECT_THAT(most->weights.elements<float>(),
                testing::ElementsAreArray(state->weights.elements<float>()));
  }
}

TEST(StateFrom, KeepsModulesIfSeveralFit) {
  const StateSpec spec = small_spec();
  std::vector<NamedTensor> both;
  for (const std::string modules : {"net.", "ema."})
    for (NamedTensor& tensor : named_tensors(spec, *initial_state(spec, DType::f32, 1), false))
      both.push_back({modules + tensor.name, tensor.tensor});
  EXPECT_THROW(state_from(spec, DType::f32, TensorSource::of(both), 0, {}, true), Error);
}

TEST(StateFrom, KeepsModulesThatTheModelHas) {
  StateSpec spec;
  spec.add_parameter("net.net.a", Shape{2}, {});
  const std::vector<NamedTensor> named = {{"net.net.a", Tensor::zeros(Shape{2})}};
  EXPECT_NO_THROW(state_from(spec, DType::f32, TensorSource::of(named), 0, {}, true));
}

TEST(StateFrom, PassesOverOtherStagesUnlessStrict) {
  const StateSpec spec = small_spec();
  auto named = named_tensors(spec, *initial_state(spec, DType::f32, 1), false);
  named.push_back({"of_another_stage", Tensor::zeros(Shape{1})});
  EXPECT_NO_THROW(state_from(spec, DType::f32, TensorSource::of(named), 0, {}, false));
  EXPECT_THROW(state_from(spec, DType::f32, TensorSource::of(named), 0, {}, true), Error);
}

TEST(StateFrom, ReadsOnlyTheTensorsThatItNeeds) {
  const StateSpec spec = small_spec();
  auto named = named_tensors(spec, *initial_state(spec, DType::f32, 1), false);
  std::vector<std::string> needed;
  for (const NamedTensor& tensor : named) needed.push_back(tensor.name);
  named.push_back({"of_another_stage", Tensor::zeros(Shape{1})});
  TensorSource source = TensorSource::of(named);
  std::vector<std::string> read;
  source.read = [&, all = source.read](const std::string& name) {
    read.push_back(name);
    return all(name);
  };
  state_from(spec, DType::f32, source, 0, {}, false);
  EXPECT_EQ(read, needed);
  EXPECT_THROW(state_from(spec, DType::f32, source, 0, {}, true), Error);
  EXPECT_EQ(read.size(), needed.size());  // reported before anything is read
}

StateSpec spec_with_constants() {
  StateSpec spec = small_spec();
  spec.add_constant({"scale", Tensor::from<float>({2}, std::vector{0.1f, 3.0f})});
  spec.add_constant({"index", Tensor::from<std::int64_t>({2}, std::vector<std::int64_t>{4, 5})});
  spec.add_constant({"unread", Tensor::from<float>({1}, std::vector{1.0f}), /*fixed=*/false});
  return spec;
}

Tensor read_of(const StateSpec& spec, const StatePtr& state, const std::string& name) {
  return TensorSource::of(named_tensors(spec, *state, false)).read(name);
}

TEST(StateFrom, TakesTheFilesValueOfAConstantThatNoModuleReads) {
  const StateSpec spec = spec_with_constants();
  const StatePtr begun = initial_state(spec, DType::f32, 1);
  EXPECT_EQ(read_of(spec, begun, "unread").elements<float>()[0], 1.0f);
  auto named = named_tensors(spec, *begun, false);
  named.back().tensor = Tensor::from<double>({1}, std::vector{7.0});
  const StatePtr read = state_from(spec, DType::f32, TensorSource::of(named), 0, {}, true);
  EXPECT_EQ(read_of(spec, read, "unread").elements<float>()[0], 7.0f);
  named.pop_back();
  const StatePtr without = state_from(spec, DType::f32, TensorSource::of(named), 0, {}, true);
  EXPECT_EQ(read_of(spec, without, "unread").elements<float>()[0], 1.0f);
}

TEST(StateFrom, RefusesOtherValuesOfConstantsThatModulesReadAndNamesThem) {
  const StateSpec spec = spec_with_constants();
  const auto begun = named_tensors(spec, *initial_state(spec, DType::f32, 1), false);
  const std::size_t scale = begun.size() - 3, index = begun.size() - 2;
  auto other = begun;
  other[scale].tensor = Tensor::from<float>({2}, std::vector{0.1f, 4.0f});
  other[index].tensor = Tensor::from<std::int64_t>({2}, std::vector<std::int64_t>{4, 6});
  for (const bool strict : {true, false})
    EXPECT_THAT(
        message_of([&] { state_from(spec, DType::f32, TensorSource::of(other), 0, {}, strict); }),
        testing::EndsWith("2 with other values than the constants of the graph (scale, "
                          "index)"));
  auto shape = begun;
  shape[scale].tensor = Tensor::zeros(Shape{3});
  EXPECT_THAT(
      message_of([&] { state_from(spec, DType::f32, TensorSource::of(shape), 0, {}, true); }),
      testing::HasSubstr("scale has the shape [3], but in the model [2]"));
}

TEST(StateFrom, TakesConstantsInThePrecisionOfTheFile) {
  const StateSpec spec = spec_with_constants();
  auto named = named_tensors(spec, *initial_state(spec, DType::f32, 1), false);
  Tensor& scale = named[named.size() - 3].tensor;
  for (const DType dtype : {DType::bf16, DType::f16, DType::f64}) {
    const Tensor exact = scale;
    scale = cast(scale, dtype);
    EXPECT_NO_THROW(state_from(spec, DType::f32, TensorSource::of(named), 0, {}, true));
    scale = exact;
  }
}

TEST(StateFrom, ShowsTenNamesOfEachKind) {
  StateSpec spec;
  for (int i = 0; i < 12; ++i) spec.add_parameter(fmt::format("p{}", i), Shape{1}, {});
  EXPECT_THAT(message_of([&] { state_from(spec, DType::f32, TensorSource::of({}), 0, {}, true); }),
              testing::HasSubstr("12 missing (p0, p1, p2, p3 and 8 more)"));
}

// As load_state_dict does for files of PyTorch before 0.4.1.
TEST(StateFrom, BeginsCountersThatAFileHasNoneOf) {
  StateSpec spec = small_spec();
  auto named = named_tensors(spec, *initial_state(spec, DType::f32, 1), false);
  ASSERT_EQ(named.back().name, "count");
  named.back().tensor = Tensor::from<std::int64_t>(Shape{}, std::vector<std::int64_t>{7});
  spec.add_counter("other");
  EXPECT_THAT(
      message_of([&] { state_from(spec, DType::f32, TensorSource::of(named), 0, {}, true); }),
      testing::HasSubstr("1 missing (other)"));
  named.pop_back();
  EXPECT_EQ(state_from(spec, DType::f32, TensorSource::of(named), 0, {}, true)->counters,
            (std::vector<std::int64_t>{0, 0}));
  EXPECT_THAT(by_own_names(spec, TensorSource::of({{"z", Tensor::zeros(Shape{1})}})).tensors,
              testing::SizeIs(1))
      << "of another model";
  named.pop_back();
  EXPECT_THAT(
      message_of([&] { state_from(spec, DType::f32, TensorSource::of(named), 0, {}, true); }),
      testing::HasSubstr("1 missing (variance)"));
}

TEST(StateFrom, RefusesACounterThatIsNoInteger) {
  const StateSpec spec = small_spec();
  auto named = named_tensors(spec, *initial_state(spec, DType::f32, 1), false);
  named.back().tensor = Tensor::zeros(Shape{});
  EXPECT_THROW(state_from(spec, DType::f32, TensorSource::of(named), 0, {}, true), Error);
}

}  // namespace
}  // namespace troupe
