#include "runtime/file/checkpoint_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "runtime/file/checkpoint.h"
#include "support.h"

namespace troupe {
namespace {

using test::expect_error;
using test::read_text;
using test::TemporaryFolder;
using test::write_text;

void write_step(const std::filesystem::path& folder, std::int64_t step) {
  Manifest manifest;
  manifest.step = step;
  write_checkpoint(folder, manifest, {{0, {{"w", Tensor::zeros({64})}}}}).value();
}

void damage_data(const std::filesystem::path& checkpoint) {
  std::string text = read_text(checkpoint / "stage_00.tensors");
  text[9] ^= 4;
  write_text(checkpoint / "stage_00.tensors", text);
}

std::vector<std::int64_t> steps_in(const std::filesystem::path& folder) {
  std::vector<std::int64_t> steps;
  for (const CheckpointInfo& info : list_checkpoints(folder)) steps.push_back(info.step);
  return steps;
}

TEST(CheckpointFolder, ListsCheckpointsOldestFirst) {
  TemporaryFolder out;
  for (std::int64_t step : {500, 20, 123456789}) write_step(out / "checkpoints", step);
  std::filesystem::create_directory(out / "checkpoints/step_5");
  write_text(out / "checkpoints/notes", "");
  EXPECT_EQ(steps_in(out.path()), (std::vector<std::int64_t>{20, 500, 123456789}));
  EXPECT_EQ(steps_in(out / "checkpoints"), steps_in(out.path()));
  const CheckpointInfo info = list_checkpoints(out.path()).front();
  EXPECT_TRUE(info.complete);
  EXPECT_GT(info.bytes, 0u);
  EXPECT_FALSE(info.created.empty());
}

TEST(CheckpointFolder, LooksAtTheContentWhereAsked) {
  TemporaryFolder out;
  write_step(out.path(), 1);
  damage_data(out / "step_00000001");
  EXPECT_TRUE(list_checkpoints(out.path()).front().complete);
  const auto infos = list_checkpoints(out.path(), CheckpointCheck::content);
  EXPECT_FALSE(infos.front().complete);
  EXPECT_THAT(infos.front().reason, testing::HasSubstr("checksum"));
}

TEST(CheckpointFolder, StandsForItsNewestWholeCheckpoint) {
  TemporaryFolder out;
  const auto place = out / "checkpoints";
  for (std::int64_t step : {1, 2, 3, 4}) write_step(place, step);
  damage_data(place / "step_00000004");
  std::filesystem::remove(place / "step_00000003" / "manifest.json");
  const CheckpointChoice choice = newest_complete_checkpoint(out.path());
  EXPECT_EQ(choice.folder, place / "step_00000002");
  ASSERT_EQ(choice.skipped.size(), 2u);
  EXPECT_THAT(choice.skipped[0], testing::HasSubstr("step_00000004"));
  EXPECT_THAT(choice.skipped[1], testing::HasSubstr("manifest.json"));
}

TEST(CheckpointFolder, TakesACheckpointItselfAsItIs) {
  TemporaryFolder out;
  write_step(out.path(), 1);
  EXPECT_EQ(newest_complete_checkpoint(out / "step_00000001").folder, out / "step_00000001");
  std::filesystem::rename(out / "step_00000001", out / "mine");
  EXPECT_EQ(newest_complete_checkpoint(out / "mine").folder, out / "mine");
}

TEST(CheckpointFolder, SaysWhyThereIsNone) {
  TemporaryFolder out;
  expect_error(
      ErrorCode::bad_file,
      {out.path().string(), "neither a manifest.json nor a folder step_*", "output folder"},
      [&] { newest_complete_checkpoint(out.path()); });
  write_step(out.path(), 1);
  damage_data(out / "step_00000001");
  expect_error(ErrorCode::bad_file, {"step_00000001", "checksum"},
               [&] { newest_complete_checkpoint(out.path()); });
  expect_error(ErrorCode::io, {"/nowhere"}, [] { newest_complete_checkpoint("/nowhere"); });
}

TEST(CheckpointFolderDeathTest, DoesNotPassOverACheckpointThatItMayNotRead) {
  TemporaryFolder out;
  for (std::int64_t step : {1, 2}) write_step(out.path(), step);
  ASSERT_EQ(::chmod(out.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod((out / "step_00000002" / "stage_00.tensors").c_str(), 0), 0);
  const auto choose = [&] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(1);  // root may read everything
    try {
      newest_complete_checkpoint(out.path());
    } catch (const Error& error) {
      std::fputs(error.what(), stderr);
    }
    ::_exit(0);
  };
  EXPECT_EXIT(choose(), testing::ExitedWithCode(0),
              "step_00000002/stage_00.tensors': Permission denied.*permissions");
}

TEST(CheckpointFolder, RefusesACheckpointUnderTheNameOfAnotherStep) {
  TemporaryFolder out;
  write_step(out.path(), 1);
  std::filesystem::rename(out / "step_00000001", out / "step_00000009");
  EXPECT_THAT(list_checkpoints(out.path()).front().reason, testing::HasSubstr("step 1"));
}

TEST(PruneCheckpoints, KeepsTheNewestWholeOnes) {
  TemporaryFolder out;
  for (std::int64_t step : {1, 2, 3, 4, 5}) write_step(out.path(), step);
  std::filesystem::remove(out / "step_00000004" / "manifest.json");
  ASSERT_TRUE(prune_checkpoints(out.path(), {2}, 5));
  EXPECT_EQ(steps_in(out.path()), (std::vector<std::int64_t>{3, 4, 5}));
  ASSERT_TRUE(prune_checkpoints(out.path(), {0}, 5));
  EXPECT_EQ(steps_in(out.path()), (std::vector<std::int64_t>{3, 4, 5}));
  ASSERT_TRUE(prune_checkpoints(out.path(), {1}, 5));
  EXPECT_EQ(steps_in(out.path()), (std::vector<std::int64_t>{5}));
}

TEST(PruneCheckpoints, KeepsTheOneThatIsNamed) {
  TemporaryFolder out;
  for (std::int64_t step : {1, 2, 3, 4, 5}) write_step(out.path(), step);
  ASSERT_TRUE(prune_checkpoints(out.path(), {.newest = 1, .also = 2}, 5));
  EXPECT_EQ(steps_in(out.path()), (std::vector<std::int64_t>{2, 5}));
  ASSERT_TRUE(prune_checkpoints(out.path(), {.newest = 1, .also = 9}, 5));
  EXPECT_EQ(steps_in(out.path()), std::vector<std::int64_t>{5});
}

TEST(PruneCheckpoints, RemovesWhatInterruptedWritesLeft) {
  TemporaryFolder out;
  write_step(out.path(), 1);
  std::filesystem::create_directory(out / ".step_00000002.partial-123-0");
  write_text(out / ".step_00000002.partial-123-0/stage_00.tensors", "half");
  std::filesystem::create_directory(out / ".hidden");
  ASSERT_TRUE(prune_checkpoints(out.path(), {3}, 1));
  EXPECT_FALSE(std::filesystem::exists(out / ".step_00000002.partial-123-0"));
  EXPECT_TRUE(std::filesystem::exists(out / ".hidden"));
  EXPECT_EQ(steps_in(out.path()), std::vector<std::int64_t>{1});
}

TEST(PruneCheckpoints, LeavesShardsThatOtherProcessesHaveBegunAndLaterCheckpoints) {
  TemporaryFolder out;
  for (std::int64_t step : {1, 2, 9}) write_step(out.path(), step);
  for (const char* name : {".step_00000002.partial-shards", ".step_00000003.partial-shards"})
    std::filesystem::create_directory(out / name);
  ASSERT_TRUE(prune_checkpoints(out.path(), {1}, 2));
  EXPECT_EQ(steps_in(out.path()), (std::vector<std::int64_t>{2, 9}));
  EXPECT_FALSE(std::filesystem::exists(out / ".step_00000002.partial-shards"));
  EXPECT_TRUE(std::filesystem::exists(out / ".step_00000003.partial-shards"));
}

TEST(PruneCheckpoints, ReportsAFolderThatIsNotThere) {
  EXPECT_FALSE(prune_checkpoints("/nowhere", {1}, 1));
}

}  // namespace
}  // namespace troupe
