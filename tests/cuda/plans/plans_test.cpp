// Whether cuDNN has plans for the convolutions of the models, asked for described devices: none has
// to be there, and nothing runs. Each model prints what it found.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <iostream>
#include <set>

#include "model_convolutions.h"
#include "ops/cuda/dnn.h"
#include "ops/models/models.h"

namespace troupe::testing {
namespace {

using ::testing::Contains;
using ::testing::Not;

struct Case {
  std::string_view device, name;
  ModelSource model;
  SampleSpec samples;
  std::int64_t batch;
};
std::string text_of(const Case& c) {
  return fmt::format("{} {} batch {}", c.device, c.name, c.batch);
}
void PrintTo(const Case& c, std::ostream* out) { *out << text_of(c); }

std::vector<Case> cases() {
  const SampleSpec mnist{.shape = {1, 28, 28}, .classes = 10};
  const SampleSpec cifar{.shape = {3, 32, 32}, .classes = 10};
  const SampleSpec imagenet{.shape = {3, 224, 224}, .classes = 10};
  std::vector<Case> all;
  for (const std::string_view device : described_devices()) {
    for (const std::int64_t batch : {32, 256}) {
      all.push_back({device, "resnet18", ResNet18{}, imagenet, batch});
      all.push_back({device, "resnet50", ResNet50{}, imagenet, batch});
    }
    for (const std::int64_t batch : {64, 256}) {
      all.push_back({device, "wide_resnet", WideResNet{}, mnist, batch});
      all.push_back({device, "wide_resnet (160, 320, 640)",
                     WideResNet{.widths = {16, 160, 320, 640}}, mnist, batch});
      all.push_back(
          {device, "resnet18 (stem: cifar)", ResNet18{{.stem = ResNetStem::cifar}}, cifar, batch});
      all.push_back({device, "cifar_cnn", CifarCnn{}, cifar, batch});
      all.push_back({device, "mnist_cnn", MnistCnn{}, mnist, batch});
    }
  }
  return all;
}

constexpr std::pair<ConvolutionPass, std::string_view> passes[] = {
    {ConvolutionPass::forward, "forward"},
    {ConvolutionPass::input_gradient, "input gradient"},
    {ConvolutionPass::weight_gradient, "weight gradient"}};

/// How convolutions are computed, with the layouts that their images then have.
struct Arithmetic {
  std::string_view name;
  DType factors;
  bool tf32;
  std::vector<Layout> layouts;
};
const Arithmetic arithmetics[] = {{"f32", DType::f32, false, {Layout::row_major, Layout::nhwc}},
                                  {"tf32", DType::f32, true, {Layout::nhwc}},
                                  {"bf16", DType::bf16, false, {Layout::nhwc}},
                                  {"f16", DType::f16, false, {Layout::nhwc}}};

/// What cuDNN said to one model's convolutions in one layout.
struct Answers {
  int planned = 0;
  std::size_t largest = 0;  ///< workspace, in bytes
  std::string largest_of;
  std::vector<std::string> refused;
  std::set<std::string> notes;  ///< of all plans
};

Answers ask(const Case& c, const Arithmetic& arithmetic, Layout layout) {
  const auto device = described_device(c.device);
  Answers answers;
  for (ConvolutionWork work : convolutions_of(c.model, c.samples, c.batch)) {
    work.dtype = arithmetic.factors;
    work.tf32 = arithmetic.tf32;
    work.layout = layout;
    const auto plan = cuda::plan_convolution(work, &*device);
    const std::string text = testing::text_of(work);
    if (!plan) {
      answers.refused.push_back(text);
      continue;
    }
    ++answers.planned;
    for (const std::string& note : plan->notes()) answers.notes.insert(note);
    if (plan->workspace_bytes() < answers.largest) continue;
    answers.largest = plan->workspace_bytes();
    answers.largest_of = text;
  }
  return answers;
}

class CudnnPlans : public ::testing::TestWithParam<Case> {};

TEST_P(CudnnPlans, AreDeterministicForEveryConvolution) {
  const Case& c = GetParam();
  for (const Arithmetic& arithmetic : arithmetics)
    for (const Layout layout : arithmetic.layouts) {
      const Answers answers = ask(c, arithmetic, layout);
      std::cout << fmt::format(
          "{} {} {}: {} plans, {} refused, at most {:.1f} MiB of workspace: {}\n", text_of(c),
          arithmetic.name, name_of(layout), answers.planned, answers.refused.size(),
          static_cast<double>(answers.largest) / (1 << 20), answers.largest_of);
      for (const std::string& text : answers.refused) std::cout << "  refused: " << text << "\n";
      EXPECT_GT(answers.planned, 0);
      EXPECT_TRUE(answers.refused.empty());
      EXPECT_THAT(answers.notes, Not(Contains("NONDETERMINISTIC")));
      EXPECT_THAT(answers.notes, Not(Contains("DOWN_CONVERT_INPUTS")));
      const bool rounds = arithmetic.tf32 || arithmetic.factors != DType::f32;
      EXPECT_EQ(answers.notes.contains("TENSOR_CORE"), rounds);
      for (const char* note : {"REDUCED_PRECISION_REDUCTION", "WINOGRAD", "FFT"})
        EXPECT_FALSE(rounds && answers.notes.contains(note)) << note;
    }
}

/// A 3x3 convolution of 64 images of 28x28 with 64 channels, and what differs.
ConvolutionWork work_of(ConvolutionPass pass, std::int64_t groups, std::int64_t dilation) {
  const ConvolutionOptions options{.in_channels = 64,
                                   .out_channels = 64,
                                   .padding_h = dilation,
                                   .padding_w = dilation,
                                   .dilation_h = dilation,
                                   .dilation_w = dilation,
                                   .groups = groups};
  const Shape images{64, 64, 28, 28};
  return {.pass = pass, .options = options, .x = images, .y = images};
}

TEST(CudnnPlansOfOtherKinds, AreThereForGroupsAndDilation) {
  const auto device = *described_device("h100");
  for (const auto& [groups, dilation] : {std::pair{1, 1}, {2, 1}, {32, 1}, {64, 1}, {1, 2}})
    for (const auto& [pass, name] : passes)
      for (const Layout layout : {Layout::row_major, Layout::nhwc}) {
        ConvolutionWork work = work_of(pass, groups, dilation);
        work.layout = layout;
        EXPECT_TRUE(cuda::plan_convolution(work, &device)) << fmt::format(
            "{} groups, dilation {}, {}, {}", groups, dilation, name, name_of(layout));
      }
}

TEST(CudnnPlansByType, AreThereForAllButF64) {
  const auto device = *described_device("h100");
  for (const DType factors : {DType::f32, DType::bf16, DType::f16})
    for (const auto& [pass, name] : passes) {
      ConvolutionWork work = work_of(pass, 1, 1);
      work.dtype = factors;
      work.bias = pass == ConvolutionPass::forward;
      const auto plan = cuda::plan_convolution(work, &device);
      ASSERT_TRUE(plan) << name_of(factors) << " " << name;
      EXPECT_TRUE(pass == ConvolutionPass::forward || !plan->adds_bias());
    }
  ConvolutionWork work = work_of(ConvolutionPass::forward, 1, 1);
  work.dtype = DType::f64;
  EXPECT_FALSE(cuda::plan_convolution(work, &device));
}

// With tensor cores, those that cuDNN predicts to be fastest are deterministic anyway.
TEST(CudnnPlansInAnyOrder, AreTakenWhereTheyAreAllowedAndFastest) {
  const auto device = *described_device("h100");
  for (const Arithmetic& arithmetic : arithmetics) {
    std::set<std::string> notes;
    for (ConvolutionWork work :
         convolutions_of(ResNet18{}, {.shape = {3, 224, 224}, .classes = 10}, 32)) {
      work.dtype = arithmetic.factors;
      work.tf32 = arithmetic.tf32;
      work.layout = arithmetic.layouts.front();
      work.deterministic = false;
      const auto plan = cuda::plan_convolution(work, &device);
      ASSERT_TRUE(plan) << testing::text_of(work);
      for (const std::string& note : plan->notes()) notes.insert(note);
    }
    const bool rounds = arithmetic.tf32 || arithmetic.factors != DType::f32;
    EXPECT_EQ(notes.contains("NONDETERMINISTIC"), !rounds) << arithmetic.name;
    EXPECT_EQ(notes.contains("TENSOR_CORE"), rounds) << arithmetic.name;
    EXPECT_THAT(notes, Not(Contains("DOWN_CONVERT_INPUTS"))) << arithmetic.name;
  }
}

// They are other plans than those of f32, which copy the images.
TEST(CudnnPlansInTf32, CopyNoImagesInNhwc) {
  for (const char* name : {"h100", "b200"}) {
    const auto device = *described_device(name);
    ConvolutionWork work = work_of(ConvolutionPass::forward, 1, 1);
    const auto image_bytes = static_cast<std::size_t>(work.x.element_count()) * sizeof(float);
    EXPECT_GE(cuda::plan_convolution(work, &device)->workspace_bytes(), image_bytes) << name;
    work.tf32 = true;
    EXPECT_LT(cuda::plan_convolution(work, &device)->workspace_bytes(), image_bytes / 2) << name;
    work.layout = Layout::row_major;
    EXPECT_GE(cuda::plan_convolution(work, &device)->workspace_bytes(), image_bytes) << name;
  }
}

TEST(DescribedDevices, AreKnownByName) {
  for (const std::string_view name : described_devices()) {
    const auto device = described_device(name);
    ASSERT_TRUE(device) << name;
    EXPECT_GT(device->memory_bytes, std::int64_t{39} << 30) << name;
  }
  EXPECT_EQ(described_device("gh200")->architecture, 90);
  EXPECT_FALSE(described_device("h10"));
}

std::string test_name(const ::testing::TestParamInfo<Case>& info) {
  std::string name = fmt::format("{}_{}", info.index, text_of(info.param));
  for (char& character : name)
    if (!std::isalnum(static_cast<unsigned char>(character))) character = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, CudnnPlans, ::testing::ValuesIn(cases()), test_name);

}  // namespace
}  // namespace troupe::testing
