// Constants of a model file in the state_dict: files of weights, and other exports of the model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "apps/command.h"
#include "runtime/file/torch_file.h"
#include "tests/unit/apps/ran.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Its buffer "scale" is 0.5, 2, 0.5, 2, …
constexpr auto model = TROUPE_SOURCE_DIR "/tests/golden/graphs/tied.onnx";

class ModelConstants : public testing::Test {
 protected:
  ModelConstants() {
    std::ofstream(options_) << "model: {file: " << path("net.onnx")
                            << "}\n"
                               "data: {name: synthetic, shape: [3, 20, 24], classes: 10, count: 16,"
                               " mean: [0.5], std: [0.25]}\n"
                               "train: {steps: 2, batch_size: 8, micro_batches: 1, lr: 0.01}\n";
    std::filesystem::copy(model, path("net.onnx"));
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  Ran train(const std::string& output, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"train", options_, "-o", path(output)};
    words.insert(words.end(), more.begin(), more.end());
    return run_troupe(words);
  }

  test::TemporaryFolder folder_;
  std::string options_ = path("o.yaml");
};

TEST_F(ModelConstants, OfAFileOfWeightsHaveTheValuesOfTheGraph) {
  ASSERT_EQ(train("run").code, exit_done);
  ASSERT_EQ(run_troupe({"export", path("run"), "-o", path("w.pt")}).code, exit_done);
  EXPECT_EQ(train("same", {"-r", "model.weights=" + path("w.pt")}).code, exit_done);
  TensorSource changed = open_torch_file(path("w.pt")).tensors;
  changed.read = [read = changed.read](const std::string& name) {
    const Tensor tensor = read(name).clone();
    if (name == "scale") std::ranges::fill(tensor.elements<float>(), 7.0f);
    return tensor;
  };
  stream_torch_file(path("other.pt"), changed).value();
  const std::vector<std::string> other{"-r", "model.weights=" + path("other.pt")};
  const Ran refused = train("refused", other);
  EXPECT_NE(refused.code, exit_done);
  EXPECT_THAT(refused.error,
              AllOf(HasSubstr("1 with other values than the constants of the graph (scale)"),
                    HasSubstr("export the model again"), HasSubstr("model.strict=false")));
  const Ran partly = train("partly", {other[0], other[1], "-r", "model.strict=false"});
  EXPECT_EQ(partly.code, exit_done) << partly.error;
  EXPECT_THAT(partly.out + partly.error,
              HasSubstr("not used: scale (a constant of the graph, with another value)"));
}

TEST_F(ModelConstants, AreNamedIfTheGraphOfAResumedRunHasOthers) {
  ASSERT_EQ(train("run").code, exit_done);
  std::string bytes = test::read_text(model);
  constexpr std::array<float, 4> before{0.5f, 2.0f, 0.5f, 2.0f};
  const auto at = bytes.find(std::string_view(reinterpret_cast<const char*>(before.data()), 16));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 3] = '\x40';  // 2 in place of 0.5
  test::write_text(path("net.onnx"), bytes);
  const Ran resumed = train("run", {"-r", "train.steps=4", "--restart", "auto"});
  for (const Ran& ran : {resumed, run_troupe({"eval", path("run")})}) {
    EXPECT_NE(ran.code, exit_done);
    EXPECT_THAT(ran.error,
                HasSubstr("1 with other values than the constants of the graph (scale)"));
  }
}

}  // namespace
}  // namespace troupe
