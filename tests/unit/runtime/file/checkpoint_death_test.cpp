// Writers that die: whatever the moment, the checkpoint before stays loadable.

#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "runtime/file/checkpoint.h"
#include "runtime/file/checkpoint_folder.h"
#include "runtime/file/digest.h"
#include "support.h"

namespace troupe {
namespace {

using test::TemporaryFolder;

std::vector<ShardContent> state_of(std::int64_t step, std::int64_t elements) {
  const auto seed = static_cast<unsigned>(step);
  return {{0, {{"a", test::normal_tensor({elements}, seed)}}},
          {1, {{"b", test::normal_tensor({elements}, seed + 1000)}}}};
}

std::string digest_of_state(std::int64_t step, std::int64_t elements) {
  const auto shards = state_of(step, elements);
  return digest({shards[0].tensors[0], shards[1].tensors[0]});
}

Result<std::filesystem::path> write_step(const std::filesystem::path& folder, std::int64_t step,
                                         std::int64_t elements, WriteHook hook = {}) {
  Manifest manifest;
  manifest.step = step;
  CheckpointWriteOptions options;
  options.hook = std::move(hook);
  options.block_bytes = 256;
  return write_checkpoint(folder, manifest, state_of(step, elements), options);
}

/// Runs `action` in a child process; its wait status.
template <class Action>
int in_child(Action&& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    action();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

/// What a hook of the next call sees of the calls so far.
WriteHook at_call(int wanted, std::function<int()> action) {
  return [wanted, count = std::make_shared<int>(0), action = std::move(action)](const WriteCall&) {
    return (*count)++ == wanted ? action() : 0;
  };
}

int calls_of_a_write() {
  TemporaryFolder folder;
  auto count = std::make_shared<int>(0);
  write_step(folder.path(), 2, 300, [count](const WriteCall&) { return ++*count, 0; }).value();
  return *count;
}

TEST(DyingWriter, LeavesTheCheckpointBeforeAtEveryCallOfTheSystem) {
  const int calls = calls_of_a_write();
  ASSERT_GT(calls, 20);
  const std::string before = digest_of_state(1, 300);
  const std::string after = digest_of_state(2, 300);
  TemporaryFolder folder;
  ASSERT_TRUE(write_step(folder.path(), 1, 300));
  int finished = 0;
  for (int call = 0; call < calls; ++call) {
    in_child([&] {
      (void)write_step(folder.path(), 2, 300, at_call(call, [] { return ::_exit(9), 0; }));
    });
    const CheckpointChoice choice = newest_complete_checkpoint(folder.path());
    EXPECT_TRUE(choice.skipped.empty()) << choice.skipped.front();
    const std::string found = digest_of(choice.folder);
    // Only the sync after the rename comes when the new one is there already.
    finished += found == after;
    EXPECT_TRUE(found == before || found == after) << "call " << call;
  }
  EXPECT_EQ(finished, 1);
  ASSERT_TRUE(prune_checkpoints(folder.path(), {0}, 2));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2);
}

TEST(DyingWriter, LeavesTheOneOfTheSameStepWhileItIsReplaced) {
  const int calls = calls_of_a_write();
  TemporaryFolder folder;
  for (int call = 0; call < calls; ++call) {
    ASSERT_TRUE(write_step(folder.path(), 2, 300));
    in_child([&] {
      (void)write_step(folder.path(), 2, 300, at_call(call, [] { return ::_exit(9), 0; }));
    });
    EXPECT_EQ(digest_of(folder.path()), digest_of_state(2, 300)) << "call " << call;
  }
}

TEST(DyingWriter, LeavesAWholeCheckpointWhenItIsKilledAtAnyMoment) {
  constexpr std::int64_t elements = 200'000;
  TemporaryFolder folder;
  ASSERT_TRUE(write_step(folder.path(), 1, elements));
  std::mt19937 engine(1);
  std::int64_t newest = 1;
  for (int round = 0; round < 25; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (std::int64_t step = newest + 1;; ++step)
        if (!write_step(folder.path(), step, elements)) ::_exit(1);
    }
    ASSERT_GT(child, 0);
    std::this_thread::sleep_for(std::chrono::microseconds(engine() % 40'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    const CheckpointChoice choice = newest_complete_checkpoint(folder.path());
    ASSERT_TRUE(choice.skipped.empty()) << choice.skipped.front();
    newest = open_checkpoint(choice.folder).manifest().step;
    ASSERT_EQ(digest_of(choice.folder), digest_of_state(newest, elements));
    ASSERT_TRUE(prune_checkpoints(folder.path(), {2}, newest));
  }
}

TEST(RefusedWriter, ReportsEveryRefusalAndGoesOn) {
  const int calls = calls_of_a_write();
  TemporaryFolder folder;
  ASSERT_TRUE(write_step(folder.path(), 1, 300));
  for (int call = 0; call < calls - 1; ++call) {
    for (int threads : {1, 3}) {
      Manifest manifest;
      manifest.step = 2;
      CheckpointWriteOptions options;
      options.threads = threads;
      options.block_bytes = 256;
      options.hook = [call, count = std::make_shared<std::atomic<int>>(0)](const WriteCall&) {
        return (*count)++ == call ? ENOSPC : 0;
      };
      const auto result = write_checkpoint(folder.path(), manifest, state_of(2, 300), options);
      ASSERT_FALSE(result) << "call " << call;
      EXPECT_EQ(result.error().code(), ErrorCode::io);
      EXPECT_THAT(result.error().what(), testing::HasSubstr("No space left"));
      EXPECT_EQ(newest_complete_checkpoint(folder.path()).folder, folder / "step_00000001");
      EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
    }
  }
  EXPECT_TRUE(write_step(folder.path(), 2, 300));
}

TEST(RefusedWriter, ReportsADiskThatIsReallyFull) {
  TemporaryFolder folder;
  const std::string options = "size=256k";
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, options.c_str()) != 0)
    GTEST_SKIP() << "only root may mount a small disk";
  const auto small = write_step(folder.path(), 1, 300);
  const auto large = write_step(folder.path(), 2, 100'000);
  const auto newest = newest_complete_checkpoint(folder.path()).folder.filename();
  const auto entries = std::distance(std::filesystem::directory_iterator(folder.path()), {});
  ::umount(folder.path().c_str());
  EXPECT_TRUE(small);
  ASSERT_FALSE(large);
  EXPECT_THAT(large.error().what(), testing::HasSubstr("No space left"));
  EXPECT_THAT(large.error().remedy(), testing::HasSubstr("free space"));
  EXPECT_EQ(newest, "step_00000001");
  EXPECT_EQ(entries, 1);
}

TEST(RefusedWriter, ReportsAFolderThatItMayNotWriteTo) {
  TemporaryFolder folder;
  test::write_text(folder / "file", "");
  const auto result = write_step(folder / "file", 1, 300);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().what(), testing::HasSubstr("file"));
  EXPECT_FALSE(result.error().remedy().empty());
}

}  // namespace
}  // namespace troupe
