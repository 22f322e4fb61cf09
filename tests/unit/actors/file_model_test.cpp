// Models of files in whole graphs of actors: the weights are those of the whole model, whatever the
// partition, the replicas and the failures.
#include "ops/models/file_model.h"

#include <gmock/gmock.h>

#include "actors/data/datasets.h"
#include "ops/models/resnet.h"
#include "runtime/file/checkpoint.h"
#include "training_run.h"

namespace troupe {
namespace {

using testing::pipeline_of;
using testing::train;
using testing::TrainingResult;
using testing::TrainingRun;

std::string file_of(const std::string& model, const std::string& extension = ".pt2") {
  return TROUPE_SOURCE_DIR "/tests/golden/graphs/" + model + extension;
}

TrainingRun run_of(const std::string& model, const std::string& extension = ".pt2") {
  TrainingRun run{.steps = 3};
  const bool sequences = model == "series" || model == "masked" || model == "recurrent";
  const std::vector<std::int64_t> shape =
      sequences ? std::vector<std::int64_t>{1, 20, 6} : std::vector<std::int64_t>{3, 20, 24};
  run.adjust = [file = file_of(model, extension), shape](PipelineOptions& pipeline) {
    pipeline.model = FileModel{.file = file};
    pipeline.data.dataset =
        open_dataset(Synthetic{.shape = shape, .classes = 4, .count = 24}, {.seed = 3});
  };
  run.partition = {SIZE_MAX};
  return run;
}

std::size_t blocks_of(const TrainingRun& run) { return model_of(pipeline_of(run)).blocks.size(); }

TEST(FileModelSamples, AreNamedWithoutTheChannelThatDataSetsGiveASequence) {
  try {
    (void)FileModel{.file = file_of("tokens")}.make({.shape = {1, 99}, .dtype = DType::i64});
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("those of the data set have [99]"), std::string::npos)
        << error.message();
  }
}

class FileModelRuns : public ::testing::TestWithParam<const char*> {};

TEST_P(FileModelRuns, GiveTheSameBitsWhateverTheStages) {
  TrainingRun run = run_of(GetParam());
  const std::size_t blocks = blocks_of(run);
  const TrainingResult whole = train(run);
  EXPECT_EQ(whole.digest.size(), 64u);
  for (std::size_t stages = 2; stages <= std::min<std::size_t>(4, blocks); ++stages) {
    run.partition.assign(stages, 1);
    run.partition.back() = blocks - (stages - 1);
    run.order = stages;
    EXPECT_EQ(train(run).digest, whole.digest) << stages << " stages";
  }
}

TEST_P(FileModelRuns, GiveTheSameBitsWithReplicasAndAfterAFailure) {
  TrainingRun run = run_of(GetParam());
  const std::size_t blocks = blocks_of(run);
  const TrainingResult whole = train(run);
  run.partition = {blocks - 1, 1};
  run.replicas = 2;
  run.faults = {{.actor = "stage/0/1", .step = 2, .micro_batch = 3}};
  const TrainingResult failed = train(run);
  EXPECT_EQ(failed.digest, whole.digest);
  EXPECT_EQ(failed.failures.size(), 1u);
}

TEST_P(FileModelRuns, GoOnFromACheckpointWithTheSameBits) {
  TrainingRun run = run_of(GetParam());
  run.snapshot_every = 2;
  const TrainingResult whole = train(run);
  run.from = whole.written.at(2);
  run.first_step = 2;
  run.partition = {1, blocks_of(run_of(GetParam())) - 1};
  EXPECT_EQ(train(run).digest, whole.digest);
}

class OnnxModelRuns : public FileModelRuns {};

TEST_P(OnnxModelRuns, GiveTheSameBitsInStages) {
  TrainingRun run = run_of(GetParam(), ".onnx");
  run.partition = {1, blocks_of(run) - 1};
  EXPECT_EQ(train(run).digest, train(run_of(GetParam())).digest);
}

INSTANTIATE_TEST_SUITE_P(EachModel, FileModelRuns,
                         ::testing::Values("vgg", "resnet18", "depthwise", "dense", "vit", "tied",
                                           "series", "masked", "recurrent"));
// Without "tied": ONNX does not say what is frozen.
INSTANTIATE_TEST_SUITE_P(EachModel, OnnxModelRuns,
                         ::testing::Values("vgg", "resnet18", "depthwise", "dense", "vit",
                                           "series"));

TEST(FileModel, OfAResNetGivesTheBitsOfTheLibrarysOwn) {
  TrainingRun run = run_of("resnet18");
  const TrainingResult exported = train(run);
  run.adjust = [adjust = run.adjust](PipelineOptions& pipeline) {
    adjust(pipeline);
    pipeline.model = ResNet18{{.widths = {4, 4, 8, 8}}};
    const Model model = model_of(pipeline);
    StateSpec spec;
    for (const auto& block : model.blocks) block->declare(spec);
    const TensorSource weights = FileModel{.file = file_of("resnet18")}.graph()->weights;
    pipeline.initial = {state_from(spec, pipeline.dtype, weights, 0, {}, true)};
  };
  EXPECT_EQ(train(run).digest, exported.digest);
}

TEST(FileModel, BeginsWithTheWeightsOfTheFile) {
  TrainingRun run = run_of("tied");
  run.steps = 1;
  run.adjust = [adjust = run.adjust](PipelineOptions& pipeline) {
    adjust(pipeline);
    pipeline.rate.lr = 0;
  };
  const auto weights = FileModel{.file = file_of("tied")}.graph()->weights;
  const TrainingResult result = train(run);
  std::size_t compared = 0;
  for (const NamedTensor& written : result.written.at(1))
    if (written.name == "decode.weight" || written.name == "encode.weight") {
      const Tensor in_file = weights.read("decode.weight");
      EXPECT_TRUE(std::ranges::equal(written.tensor.elements<float>(), in_file.elements<float>()));
      ++compared;
    }
  EXPECT_EQ(compared, 2u);
}

TEST(FileModel, DrawsNewParametersIfAsked) {
  const auto state_of = [](bool initialise) {
    const Model model = ModelSource(FileModel{.file = file_of("tied"), .initialise = initialise})
                            .make({.shape = {3, 20, 24}, .classes = 10});
    StateSpec spec;
    for (const auto& block : model.blocks) block->declare(spec);
    return named_tensors(spec, *initial_state(spec, DType::f32, 1), false);
  };
  const auto kept = state_of(false), drawn = state_of(true);
  ASSERT_EQ(kept.size(), drawn.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(kept[i].name, drawn[i].name);
    const bool same =
        std::ranges::equal(kept[i].tensor.elements<float>(), drawn[i].tensor.elements<float>());
    EXPECT_EQ(same, kept[i].name == "scale") << kept[i].name;
    if (!kept[i].name.ends_with("bias")) continue;
    for (const float value : drawn[i].tensor.elements<float>())
      EXPECT_LE(std::abs(value), kept[i].name.starts_with("frozen") ? 0.1055f : 0.25f);
  }
}

TEST(FileModel, KeepsFrozenParameters) {
  TrainingRun run = run_of("tied");
  run.steps = 2;
  const auto weights = FileModel{.file = file_of("tied")}.graph()->weights;
  const TrainingResult result = train(run);
  for (const NamedTensor& written : result.written.at(2)) {
    if (!written.name.starts_with("frozen.") && written.name != "fc.weight") continue;
    const bool same = std::ranges::equal(written.tensor.elements<float>(),
                                         weights.read(written.name).elements<float>());
    EXPECT_EQ(same, written.name.starts_with("frozen.")) << written.name;
  }
}

TEST(FileModel, NamesBothShapesWhereTheSamplesDoNotFit) {
  const ModelSource model = FileModel{.file = file_of("vgg")};
  try {
    (void)model.make({.shape = {1, 28, 28}, .classes = 10});
    FAIL() << "the model was made";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_options);
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("[3, 20, 24]"),
                                               ::testing::HasSubstr("[1, 28, 28]")));
  }
}

TEST(FileModel, LeavesOutALogSoftmaxOfClassesAndSaysSo) {
  const Model model =
      ModelSource(FileModel{.file = file_of("dense")}).make({.shape = {3, 20, 24}, .classes = 10});
  ASSERT_EQ(model.notes.size(), 1u);
  EXPECT_THAT(model.notes[0], ::testing::HasSubstr("log-softmax"));
}

TEST(FileModel, IsRefusedIfItsFileIsNotTheOneOfTheRun) {
  const ModelSource model = FileModel{.file = file_of("vgg"), .digest = std::string(64, '0')};
  EXPECT_THROW((void)model.make({.shape = {3, 20, 24}, .classes = 10}), Error);
}

}  // namespace
}  // namespace troupe
