// A program of several block ranges: its state is that of all of them, and with the ranges of
// another stage between them the bits are those of the whole model.
#include "actors/stage_program.h"

#include <gmock/gmock.h>

#include <cstring>
#include <map>

#include "actors/stage.h"
#include "ops/models/models.h"
#include "ops/optim/sgd.h"
#include "runtime/error.h"

namespace troupe {
namespace {

const SampleSpec samples{.shape = {1, 28, 28}, .classes = 4};

std::unique_ptr<StageProgram> program_of(std::vector<BlockRange> blocks,
                                         std::vector<std::size_t> buckets) {
  return network_program({.model = WideResNet{.widths = {2, 2, 4, 4}, .classes = 4, .dropout = 0.1},
                          .samples = samples,
                          .blocks = std::move(blocks),
                          .seed = 3,
                          .buckets = std::move(buckets)})({});
}

Tensor numbers(const Shape& shape, std::uint64_t seed) {
  Tensor result = Tensor::empty(shape, DType::f32, Device::cpu());
  const RandomKey key{.seed = seed};
  for (std::int64_t e = 0; e < result.element_count(); ++e)
    result.data<float>()[e] = uniform_float(key.block(static_cast<std::uint32_t>(e))[0]) - 0.5f;
  return result;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

/// A forward pass of a range, and what its backward passes gave.
struct RangePass {
  StageProgram::Forward forward;
  std::vector<Tensor> gradients;  ///< by bucket
  Tensor statistics;
};

/// Goes back through all buckets of a range, both halves at once or apart; the gradient of its
/// input.
Tensor go_back(StageProgram& program, RangePass& pass, const Tensor& grad, std::size_t buckets,
               bool apart) {
  Tensor input_gradient;
  if (apart) input_gradient = program.input_gradient(*pass.forward.saved, grad);
  for (std::size_t b = 0; b < buckets; ++b) {
    auto made = program.backward(*pass.forward.saved, grad, b);
    pass.gradients.push_back(made.gradient);
    if (made.statistics.defined()) pass.statistics = made.statistics;
    if (made.input_gradient.defined()) input_gradient = made.input_gradient;
  }
  return input_gradient;
}

std::map<std::string, Tensor> tensors_of(const std::vector<const StageProgram*>& programs) {
  std::map<std::string, Tensor> result;
  for (const StageProgram* program : programs)
    for (const NamedTensor& one : named_tensors(*program->spec(), *program->state(), true))
      EXPECT_TRUE(result.emplace(one.name, one.tensor).second) << one.name << " twice";
  return result;
}

TEST(NetworkProgram, OfRangesAroundThoseOfAnotherMakesTheBitsOfTheWhole) {
  const auto whole = program_of({}, {});
  const auto outer = program_of({{0, 4}, {9, 12}}, {1, 2, 3, 1});
  const auto inner = program_of({{4, 9}}, {});
  EXPECT_EQ(whole->ranges(), 1u);
  EXPECT_EQ(outer->ranges(), 2u);
  for (std::uint32_t step = 0; step < 3; ++step) {
    SCOPED_TRACE(step);
    const RandomKey random{.seed = 3, .step = step};
    const Tensor x = numbers({4, 1, 28, 28}, step);
    RangePass all{whole->forward(x, random, true, 0), {}, {}};
    RangePass first{outer->forward(x, random, true, 0), {}, {}};
    RangePass middle{inner->forward(first.forward.output, random, true, 0), {}, {}};
    RangePass last{outer->forward(middle.forward.output, random, true, 1), {}, {}};
    EXPECT_TRUE(same_bits(last.forward.output, all.forward.output));

    const Tensor grad = numbers(all.forward.output.shape(), 9);
    const bool apart = step == 1;
    const Tensor expected = go_back(*whole, all, grad, 1, apart);
    Tensor found = go_back(*outer, last, grad, 2, apart);
    found = go_back(*inner, middle, found, 1, apart);
    found = go_back(*outer, first, found, 2, apart);
    EXPECT_TRUE(same_bits(found, expected));

    const Sgd sgd{.momentum = 0.9, .weight_decay = 0.01};
    const auto next = [&](StageProgram& program, const std::vector<Tensor>& gradients,
                          const Tensor& statistics) {
      program.use(program.step(sgd, 0.1, gradients, {statistics}));
    };
    next(*whole, all.gradients, all.statistics);
    next(*inner, middle.gradients, middle.statistics);
    std::vector<Tensor> gradients = last.gradients;
    gradients.insert(gradients.end(), first.gradients.begin(), first.gradients.end());
    next(*outer, gradients,
         kernels(Device::cpu(), DType::f32)
             .arithmetic({}, ArithmeticOperation::add, last.statistics, first.statistics));

    const auto of_parts = tensors_of({outer.get(), inner.get()});
    const auto of_whole = tensors_of({whole.get()});
    ASSERT_EQ(of_parts.size(), of_whole.size());
    for (const auto& [name, tensor] : of_whole)
      EXPECT_TRUE(same_bits(of_parts.at(name), tensor)) << name;
    EXPECT_TRUE(same_bits(outer->evaluate(inner->evaluate(outer->evaluate(x, 0), 0), 1),
                          whole->evaluate(x, 0)));
  }
}

TEST(NetworkProgram, OfFrozenBlocksNeedsNoGradientOfItsOutput) {
  const auto program = [](const Freezes& freezes) {
    return network_program({.model = MnistCnn{.classes = 4},
                            .samples = samples,
                            .blocks = {{0, 2}},
                            .freezes = freezes})({});
  };
  const auto trained = program({});
  const auto frozen = program([](std::string_view name) { return name.starts_with("layer"); });
  const auto in_part = program([](std::string_view name) { return name.starts_with("layer1."); });
  const Tensor x = numbers({2, 1, 28, 28}, 1);
  for (const bool apart : {false, true}) {
    SCOPED_TRACE(apart);
    RangePass expected{trained->forward(x, {}, false, 0), {}, {}};
    RangePass found{frozen->forward(x, {}, false, 0), {}, {}};
    go_back(*trained, expected, numbers(expected.forward.output.shape(), 3), 1, apart);
    go_back(*frozen, found, Tensor(), 1, apart);
    EXPECT_TRUE(same_bits(found.statistics, expected.statistics));
    EXPECT_THAT(found.gradients.at(0).elements<float>(), ::testing::Each(0));
    RangePass refused{in_part->forward(x, {}, false, 0), {}, {}};
    EXPECT_THROW(go_back(*in_part, refused, Tensor(), 1, apart), Error);
  }
}

TEST(NetworkProgram, RefusesBucketsThatHoldBlocksOfTwoRanges) {
  for (const auto& buckets : std::vector<std::vector<std::size_t>>{
           {7}, {4, 3}, {3, 3}, {3, 4, 1}, {2, 2, 3}, {SIZE_MAX, 8}})
    EXPECT_THROW(program_of({{0, 4}, {9, 12}}, buckets), Error) << buckets.size() << " buckets";
  EXPECT_NO_THROW(program_of({{0, 4}, {9, 12}}, {3, 4}));
}

TEST(NetworkProgram, RefusesRangesThatOverlapOrLeaveTheModel) {
  for (const auto& ranges : std::vector<std::vector<BlockRange>>{
           {{0, 4}, {3, 6}}, {{5, 6}, {0, 1}}, {{0, 4}, {4, 4}}, {{0, 13}}, {{2, 1}}})
    EXPECT_THROW(program_of(ranges, {}), Error) << ranges.size() << " ranges";
}

TEST(StageProgram, RefusesBlocksThatTheModelDoesNotHave) {
  for (const BlockRange& range : {BlockRange{2, 99}, {99, SIZE_MAX}, {3, 3}, {4, 2}})
    EXPECT_THAT([&] { program_of({range}, {}); },
                ::testing::ThrowsMessage<Error>(
                    ::testing::ContainsRegex("has the blocks .* of a model with 12 blocks")))
        << range.first;
}

TEST(StageProgram, RefusesAScheduleWithoutCredits) {
  EXPECT_THAT([] { Stage({.schedule = {.credits = 0}, .stage = 2}); },
              ::testing::ThrowsMessage<Error>(
                  ::testing::HasSubstr("the schedule of stage 2 has 0 credits")));
}

/// A weight whose initial values are read, as from a file.
class ReadWeight final : public nn::Module {
 public:
  ReadWeight(std::string path, std::shared_ptr<int> reads)
      : Module(std::move(path)), reads_(std::move(reads)) {}
  void declare(StateSpec& spec) override {
    const auto read = [reads = reads_] {
      ++*reads;
      return Tensor::zeros({2});
    };
    spec.add_parameter("weight", {2}, {.kind = Initializer::Kind::given, .read = read});
  }
  Value forward(Tape&, Value x) override { return x; }

 private:
  std::shared_ptr<int> reads_;
};

struct ModelWithReadWeight {
  static constexpr std::string_view name = "read";
  std::shared_ptr<int> reads = std::make_shared<int>(0);
  Model make(const SampleSpec&) const {
    Model model;
    model.add<ReadWeight>("layer", reads);
    return model;
  }
};

TEST(Stage, BeginsWithTheStateThatIsRestoredAndReadsNoFirstOne) {
  const ModelWithReadWeight model;
  const ProgramFactory factory = network_program({.model = model, .samples = samples});
  const StatePtr first = factory({})->state();
  EXPECT_EQ(*model.reads, 1);
  Stage replacement({.program = factory});
  replacement.restore(first, 3);
  EXPECT_EQ(replacement.state(), first);
  EXPECT_EQ(*model.reads, 1) << "its file may have gone";
  EXPECT_EQ(first.use_count(), 2) << "the program's and the test's";
  const StatePtr other = factory({})->state();
  replacement.restore(other, 3);
  EXPECT_EQ(replacement.state(), other);
}

TEST(ProgramFactory, OfACallWithoutArgumentsGivesTheProgramItsState) {
  const auto make = [] { return program_of({}, {}); };
  const StatePtr state = make()->state();
  EXPECT_EQ(ProgramFactory(make)({}, state)->state(), state);
}

}  // namespace
}  // namespace troupe
