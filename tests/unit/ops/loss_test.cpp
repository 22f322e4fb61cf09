// The losses of a run by their values, and what they refuse.
#include "ops/loss.h"

#include <gmock/gmock.h>

#include <limits>

#include "runtime/error.h"
#include "tests/unit/ops/vector_support.h"

namespace troupe {
namespace {

using namespace test;
using ::testing::HasSubstr;

Tensor numbers(const Shape& shape, const std::vector<float>& values) {
  return Tensor::from<float>(shape, values);
}

template <class F>
std::string refusal(const F& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message() + " | " + error.remedy();
  }
  return "nothing was refused";
}

constexpr LossKind both[] = {LossKind::mse, LossKind::bce};

TEST(Losses, SquaredErrorIsTheMeanOverTheOutputsOfASample) {
  const LossOutput output = loss_of({}, {.kind = LossKind::mse}, numbers({2, 2}, {1, 2, 3, 4}),
                                    numbers({2, 2}, {1, 4, 0, 0}), 0.5, true);
  EXPECT_DOUBLE_EQ(read_totals({}, output).loss_sum, 4 / 2.0 + 25 / 2.0);
  EXPECT_EQ(values_of(output.logits_grad), (std::vector<float>{0, -1, 1.5, 2}));
}

TEST(Losses, OneOutputTakesTargetsWithoutAnAxis) {
  const Tensor outputs = numbers({2, 1}, {1, 3});
  const LossOutput output =
      loss_of({}, {.kind = LossKind::mse}, outputs, numbers({2}, {0, 1}), 1, true);
  EXPECT_DOUBLE_EQ(read_totals({}, output).loss_sum, 5);
  EXPECT_EQ(output.logits_grad.shape(), (Shape{2, 1}));
}

TEST(Losses, BinaryCrossEntropyTakesTwoClassesAsNumbers) {
  const Tensor outputs = numbers({4, 1}, {2, 2, -1, 0});
  const std::vector<std::int64_t> classes = {1, 0, 0, 1};
  const LossFunction bce{.kind = LossKind::bce};
  const LossOutput of_classes =
      loss_of({}, bce, outputs, Tensor::from<std::int64_t>({4}, classes), 1, true);
  const LossOutput of_numbers = loss_of({}, bce, outputs, numbers({4, 1}, {1, 0, 0, 1}), 1, true);
  expect_same_bits(of_classes.logits_grad, of_numbers.logits_grad);
  EXPECT_EQ(read_totals({}, of_classes).loss_sum, read_totals({}, of_numbers).loss_sum);
  EXPECT_EQ(read_totals({}, of_classes).correct, 2);  // 0 is not above 0
}

TEST(Losses, ASampleIsCorrectIfAllOfItsOutputsAre) {
  const LossOutput output =
      loss_of({}, {.kind = LossKind::bce}, numbers({3, 2}, {1, -1, 1, 1, -1, 1}),
              numbers({3, 2}, {0.5F, 0.49F, 1, 0, 0, 1}), 1, false);
  EXPECT_EQ(read_totals({}, output).correct, 2);
}

TEST(Losses, HugeLogitsOfBinaryCrossEntropyDoNotOverflow) {
  const LossOutput output =
      loss_of({}, {.kind = LossKind::bce}, numbers({1, 4}, {1e30F, 1e30F, -1e30F, -1e30F}),
              numbers({1, 4}, {1, 0, 1, 0}), 4, true);
  EXPECT_NEAR(read_totals({}, output).loss_sum, 0.5e30, 1e24);
  EXPECT_EQ(values_of(output.logits_grad), (std::vector<float>{0, 1, -1, 0}));
}

TEST(Losses, NotANumberShowsInTheLossAndIsNeverCorrect) {
  const Tensor outputs = numbers({1, 1}, {std::numeric_limits<float>::quiet_NaN()});
  for (const LossKind kind : both)
    for (const float target : {0.0F, 1.0F}) {
      const LossTotals totals =
          read_totals({}, loss_of({}, {.kind = kind}, outputs, numbers({1}, {target}), 1, true));
      EXPECT_TRUE(std::isnan(totals.loss_sum));
      EXPECT_EQ(totals.correct, 0);
    }
}

TEST(Losses, AreTheSameBitsOnAnyNumberOfThreads) {
  const Tensor outputs = random_tensor({Layout::row_major, {700, 33}}, 1, 5.0F);
  Tensor targets = random_tensor({Layout::row_major, {700, 33}}, 2, 1.0F);
  for (float& target : targets.elements<float>()) target = std::abs(target) > 0.5F ? 1.0F : 0.25F;
  for (const LossKind kind : both) {
    const auto run = [&](const Stream& stream) {
      return loss_of(stream, {.kind = kind}, outputs, targets, 0.1, true);
    };
    const LossOutput alone = run({});
    expect_same_bits(on_any_threads([&](const Stream& s) { return run(s).logits_grad; }),
                     alone.logits_grad);
    EXPECT_EQ(read_totals({}, run({.threads = 3})).loss_sum, read_totals({}, alone).loss_sum);
  }
}

TEST(Losses, ClassWeightsAndSmoothingDoNotChangeAnEvaluation) {
  const Tensor logits = random_tensor({Layout::row_major, {5, 3}}, 1, 2.0F);
  const Tensor classes = Tensor::zeros({5}, DType::i64);
  const LossFunction changed{.label_smoothing = 0.1, .class_weights = {3, 2, 1}};
  EXPECT_EQ(read_totals({}, loss_of({}, changed, logits, classes, 1, false)).loss_sum,
            read_totals({}, loss_of({}, {}, logits, classes, 1, false)).loss_sum);
  EXPECT_NE(read_totals({}, loss_of({}, changed, logits, classes, 1, true)).loss_sum,
            read_totals({}, loss_of({}, {}, logits, classes, 1, true)).loss_sum);
}

TEST(Losses, ClassWeightsMultiplyTheLossOfTheirSamples) {
  const Tensor logits = random_tensor({Layout::row_major, {64, 10}}, 1, 20.0F);
  std::vector<std::int64_t> classes(64, 3);
  const Tensor targets = Tensor::from<std::int64_t>({64}, classes);
  LossFunction weighted{.class_weights = std::vector<double>(10, 0.0)};
  weighted.class_weights[3] = 2;
  const LossOutput plain = loss_of({}, {}, logits, targets, 2, true);
  const LossOutput twice = loss_of({}, weighted, logits, targets, 1, true);
  EXPECT_NEAR(read_totals({}, twice).loss_sum, 2 * read_totals({}, plain).loss_sum, 1e-9);
  EXPECT_LT(distance(values_of(twice.logits_grad), values_of(plain.logits_grad)), 1e-6);
}

TEST(LossErrors, NameTheTargetThatIsNoNumberOrOutsideTheRange) {
  const Tensor outputs = Tensor::zeros({2, 2});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto message = [&](LossKind kind, float target) {
    return refusal([&] {
      (void)loss_of({}, {.kind = kind}, outputs, numbers({2, 2}, {0, 1, 0, target}), 1, true);
    });
  };
  EXPECT_THAT(message(LossKind::mse, nan), HasSubstr("target nan of sample 1"));
  EXPECT_THAT(message(LossKind::mse, 7), HasSubstr("nothing was refused"));
  EXPECT_THAT(message(LossKind::bce, nan), HasSubstr("target nan of sample 1"));
  EXPECT_THAT(message(LossKind::bce, 1.5F), HasSubstr("target 1.5 of sample 1"));
  EXPECT_THAT(message(LossKind::bce, -1), HasSubstr("outside [0, 1]"));
  EXPECT_THAT(refusal([] {
                const std::vector<std::int64_t> two = {2};
                (void)loss_of({}, {.kind = LossKind::bce}, Tensor::zeros({1, 1}),
                              Tensor::from<std::int64_t>({1}, two), 1, true);
              }),
              HasSubstr("target 2 of sample 0"));
}

TEST(LossErrors, NameShapesAndTypesThatDoNotFit) {
  for (const LossKind kind : both) {
    const auto message = [&](const Tensor& targets) {
      return refusal([&] {
        (void)loss_of({}, {.kind = kind}, Tensor::zeros({2, 3}), targets, 1, true);
      });
    };
    EXPECT_THAT(message(Tensor::zeros({2})), HasSubstr("they must be of one shape"));
    EXPECT_THAT(message(Tensor::zeros({3, 2})), HasSubstr("they must be of one shape"));
    EXPECT_THAT(message(Tensor::zeros({2, 3}, DType::i64)), HasSubstr("targets are i64"));
  }
  EXPECT_THAT(refusal([] {
                (void)loss_of({}, {.class_weights = {1, 2}}, Tensor::zeros({1, 3}),
                              Tensor::zeros({1}, DType::i64), 1, true);
              }),
              HasSubstr("2 class weights for 3 classes"));
}

TEST(LossErrors, RefuseImpossibleSettings) {
  EXPECT_THAT(refusal([] { check({.label_smoothing = 1}); }), HasSubstr("`label_smoothing` is 1"));
  EXPECT_THAT(refusal([] { check({.class_weights = {1, -1}}); }), HasSubstr("contains -1"));
  EXPECT_THAT(refusal([] { check({.class_weights = {std::nan("")}}); }), HasSubstr("contains nan"));
  EXPECT_THAT(refusal([] { check({.class_weights = {0, 0}}); }), HasSubstr("only zeros"));
}

TEST(LossErrors, NameWhatDoesNotFitBeforeARun) {
  const SampleSpec classes{.shape = {4}, .classes = 3};
  const SampleSpec vectors{.shape = {4}, .target_shape = {2}, .target_dtype = DType::f32};
  const auto message = [](LossFunction loss, const SampleSpec& samples,
                          std::optional<std::int64_t> outputs) {
    return refusal([&] { check_fits(loss, samples, outputs); });
  };
  const LossFunction mse{.kind = LossKind::mse}, bce{.kind = LossKind::bce};
  EXPECT_THAT(message({}, classes, 3), HasSubstr("nothing was refused"));
  EXPECT_THAT(message(mse, vectors, 2), HasSubstr("nothing was refused"));
  EXPECT_THAT(message(bce, vectors, {}), HasSubstr("nothing was refused"));
  EXPECT_THAT(message({}, vectors, 2), HasSubstr("set `loss` to mse"));
  EXPECT_THAT(message({}, classes, 1), HasSubstr("set `Model::classes` to 3"));
  EXPECT_THAT(message(mse, classes, 3), HasSubstr("set `loss` to cross_entropy"));
  EXPECT_THAT(message(mse, vectors, 3), HasSubstr("set `Model::classes` to 2"));
  EXPECT_THAT(message(bce, classes, 1),
              HasSubstr("two classes or numbers, but the data set has 3 classes"));
  EXPECT_THAT(refusal([&] { check_fits(mse, vectors, 3, "net.pt2"); }),
              AllOf(HasSubstr("the model in 'net.pt2' has 3 outputs"),
                    HasSubstr("export the model with 2 outputs")));
  EXPECT_THAT(message(bce, {.shape = {4}, .classes = 2}, 2), HasSubstr("to 1"));
  EXPECT_THAT(message({.class_weights = {1, 2}}, classes, 3), HasSubstr("2 numbers for 3 outputs"));
}

}  // namespace
}  // namespace troupe
