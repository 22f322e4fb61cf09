#include "actors/checkpoint_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

namespace troupe {
namespace {

class CheckpointFiles : public ::testing::Test {
 protected:
  CheckpointFiles() { std::filesystem::remove_all(folder_); }
  ~CheckpointFiles() override { std::filesystem::remove_all(folder_); }

  static Snapshot snapshot(std::size_t stage, const std::string& name) {
    StateSpec spec;
    spec.add_parameter(name, Shape{2, 3}, {});
    auto state = initial_state(spec, DType::f32, 1);
    return {stage, std::move(state), std::make_shared<const StateSpec>(std::move(spec))};
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() /
      (std::string("troupe_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(CheckpointFiles, HoldTheTensorsOfEveryStage) {
  const auto writer = checkpoint_to(folder_, 2);
  EXPECT_EQ(writer.stages, 2u);
  ASSERT_TRUE(writer.write(7, {snapshot(0, "front.weight"), snapshot(1, "back.weight")}, {}));
  const Checkpoint checkpoint = open_checkpoint(folder_ / "step_00000007");
  EXPECT_EQ(checkpoint.manifest().step, 7);
  const auto tensors = load_tensors(checkpoint);
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "back.weight");
  EXPECT_EQ(tensors[1].name, "front.weight");
}

TEST_F(CheckpointFiles, KeepTheNewest) {
  const auto writer = checkpoint_to(folder_, 1, 2);
  for (std::uint32_t step : {1u, 2u, 3u})
    ASSERT_TRUE(writer.write(step, {snapshot(0, "weight")}, {}));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "step_00000001"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "step_00000002"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "step_00000003"));
}

TEST_F(CheckpointFiles, SayWhatTheFileSystemRefused) {
  const Status status = checkpoint_to("/proc/nothing", 1).write(1, {snapshot(0, "weight")}, {});
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message().find("/proc/nothing"), std::string::npos)
      << status.error().message();
}

}  // namespace
}  // namespace troupe
