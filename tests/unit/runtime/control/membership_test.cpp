// From a world's description to a member of it, with the job file in between.

#include "runtime/control/membership.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "world.h"

namespace troupe {
namespace {

using namespace control_test;
using testing::HasSubstr;
namespace fs = std::filesystem;

class JobFiles : public testing::Test {
 protected:
  JobFiles() {
    std::string name = (fs::temp_directory_path() / "troupe-control-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~JobFiles() override { fs::remove_all(folder_); }

  fs::path folder_;
};

World world_of(int rank, int size, const std::string& run = "job.0") {
  World world;
  world.rank = world.local_rank = rank;
  world.size = world.local_size = size;
  world.run_id = run;
  return world;
}

TEST_F(JobFiles, GiveAllProcessesOneKeyThatOnlyTheUserCanRead) {
  const JobFile file(folder_ / "jobs" / "run");
  std::vector<JobKey> keys(8);
  {
    std::vector<std::jthread> threads;
    for (JobKey& key : keys) threads.emplace_back([&] { key = file.key(); });
  }
  for (const JobKey& key : keys) EXPECT_EQ(key, keys[0]);
  struct stat found {};
  ASSERT_EQ(stat(file.path().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  EXPECT_EQ(std::distance(fs::directory_iterator(file.path().parent_path()), {}), 1);
}

TEST_F(JobFiles, MakeFoldersThatAreTheUsersAloneWhateverTheUmask) {
  const mode_t before = umask(0);
  (void)JobFile(folder_ / "troupe" / "jobs" / "run").key();
  umask(before);
  for (const char* made : {"troupe", "troupe/jobs"})
    EXPECT_EQ(fs::status(folder_ / made).permissions(), fs::perms::owner_all) << made;
}

TEST_F(JobFiles, AreNamedWhereTheyHoldNoKey) {
  const JobFile file(folder_ / "run");
  std::ofstream(file.path()) << "key rubbish\n";
  fs::permissions(file.path(), fs::perms::owner_read | fs::perms::owner_write);
  try {
    (void)file.key();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::refused);
    EXPECT_THAT(error.what(), HasSubstr(file.path().string() + " holds no job key"));
  }
}

TEST_F(JobFiles, AreNotTrustedWhenOthersCanReadThem) {
  const JobFile file(folder_ / "run");
  (void)file.key();
  fs::permissions(file.path(), fs::perms::group_read, fs::perm_options::add);
  for (const auto read : {&JobFile::key, &JobFile::present_key}) {
    try {
      (void)(file.*read)();
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::refused);
      EXPECT_THAT(error.what(), HasSubstr("not private"));
    }
  }
}

TEST_F(JobFiles, AreRegularFilesOrRefusedAtOnce) {
  const JobFile pipe(folder_ / "pipe"), folder(folder_ / "folder");
  ASSERT_EQ(mkfifo(pipe.path().c_str(), 0600), 0);
  ASSERT_EQ(mkdir(folder.path().c_str(), 0700), 0);
  for (const JobFile& file : {pipe, folder}) {
    EXPECT_EQ(file.coordinator(), "");
    try {
      (void)file.key();
      FAIL() << file.path();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::refused);
      EXPECT_THAT(error.what(), HasSubstr(file.path().string() + " is not a regular file"));
      EXPECT_THAT(error.what(), HasSubstr("TROUPE_JOB_FILE"));
    }
  }
}

TEST_F(JobFiles, KeepTheKeyWhenTheCoordinatorIsPublished) {
  const JobFile file(folder_ / "run");
  const JobKey key = file.key();
  EXPECT_EQ(file.coordinator(), "");
  file.publish(key, "tcp://127.0.0.1:1");
  EXPECT_EQ(file.coordinator(), "tcp://127.0.0.1:1");
  EXPECT_EQ(file.key(), key);
  file.remove("tcp://127.0.0.1:2");
  EXPECT_TRUE(fs::exists(file.path()));
  file.remove("tcp://127.0.0.1:1");
  EXPECT_FALSE(fs::exists(file.path()));
}

TEST_F(JobFiles, AreMadeOnceAndRemovedForTheirOwnKeyOnly) {
  const JobFile file(folder_ / "run");
  const auto drawn = file.create();
  ASSERT_TRUE(drawn);
  EXPECT_FALSE(file.create());
  EXPECT_EQ(file.key(), *drawn);
  file.remove(JobKey::generate());
  EXPECT_TRUE(fs::exists(file.path()));
  file.remove(*drawn);
  EXPECT_FALSE(fs::exists(file.path()));
}

TEST_F(JobFiles, LieBelowTheHomeFolder) {
  EXPECT_EQ(JobFile::of_run({{"HOME", "/home/a"}}, "run").path(), "/home/a/.troupe/jobs/run");
  EXPECT_EQ(JobFile::of_run({{"HOME", "/home/a"}, {"TROUPE_JOB_FILE", "/scratch/f"}}, "run").path(),
            "/scratch/f");
  EXPECT_THROW(JobFile::of_run({}, "run"), Error);
}

/// All ranks enter, pass a barrier and leave, a thread each.
void run_world(int size, const Environment& environment) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([=] {
      auto membership = Membership::enter(world_of(rank, size), environment, {"", patience});
      ASSERT_TRUE(membership) << membership.error().what();
      Member& member = membership.value()->member();
      EXPECT_EQ(member.rank(), rank);
      EXPECT_TRUE(member.barrier("all"));
      EXPECT_TRUE(membership.value()->leave());
    });
}

/// Rank 1 of two, which nobody joins.
Result<std::unique_ptr<Membership>> enter_alone(const JobFile& file) {
  return Membership::enter(world_of(1, 2), {{"TROUPE_JOB_FILE", file.path().string()}},
                           {"", milliseconds(50)});
}

/// Rank 1 of a world whose rank 0 and coordinator are the test's.
struct Survivor {
  explicit Survivor(const fs::path& path) : file(path), key(file.key()) {
    auto options = coordinator_options(2, key);
    options.run = "job.0";
    coordinator = std::move(Coordinator::start(options).value());
    file.publish(key, coordinator->endpoint());
    const std::jthread first([&] {
      auto zero = member_options(*coordinator, 0, 2, key);
      zero.run = "job.0";
      rank_zero = std::move(Member::join(zero).value());
    });
    membership = std::move(
        Membership::enter(world_of(1, 2), {{"TROUPE_JOB_FILE", path.string()}}, {"", patience})
            .value());
  }

  JobFile file;
  JobKey key;
  std::unique_ptr<Coordinator> coordinator;
  std::unique_ptr<Member> rank_zero;
  std::unique_ptr<Membership> membership;
};

TEST_F(JobFiles, BringAWorldTogetherWhoseRankZeroKeepsTheCoordinator) {
  const fs::path path = folder_ / "run";
  run_world(3, {{"TROUPE_JOB_FILE", path.string()}});
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(JobFiles, OfARunThatDiedDoNotMisleadTheNext) {
  const JobFile file(folder_ / "run");
  file.publish(file.key(), "tcp://127.0.0.1:1");  // nobody listens there
  run_world(3, {{"TROUPE_JOB_FILE", file.path().string()}});
}

TEST_F(JobFiles, AreNotNeededBelowALauncherThatKeepsTheCoordinator) {
  const JobKey key = JobKey::generate();
  auto options = coordinator_options(2, key);
  options.run = "job.0";
  auto coordinator = std::move(Coordinator::start(options).value());
  run_world(2, {{"TROUPE_JOB_KEY", key.text()}, {"TROUPE_COORDINATOR", coordinator->endpoint()}});
  EXPECT_TRUE(coordinator->wait_for_end(patience));
}

TEST_F(JobFiles, SayThatRankZeroDidNotCome) {
  const Environment environment{{"TROUPE_JOB_FILE", (folder_ / "run").string()}};
  const auto membership = Membership::enter(world_of(1, 2), environment, {"", milliseconds(50)});
  ASSERT_FALSE(membership);
  EXPECT_EQ(membership.error().code(), ErrorCode::timed_out);
  EXPECT_THAT(membership.error().what(), HasSubstr("rank 0"));
  EXPECT_FALSE(fs::exists(folder_ / "run")) << "nobody else knows of it";
}

TEST_F(JobFiles, WithAPlaceThatCannotBeAreAnError) {
  const JobFile file(folder_ / "run");
  for (const std::string place : {"tcp://login-node.invalid:29400", "somewhere"}) {
    file.publish(file.key(), place);
    const auto entered = enter_alone(file);
    ASSERT_FALSE(entered);
    EXPECT_NE(entered.error().code(), ErrorCode::timed_out);
  }
}

TEST_F(JobFiles, GoWithWhoeverWaitedInVainThoughAnotherMadeThem) {
  const JobFile file(folder_ / "run");
  (void)file.key();
  EXPECT_FALSE(enter_alone(file));
  EXPECT_FALSE(fs::exists(file.path()));
}

TEST_F(JobFiles, ThatAreRemovedWhileOthersWaitAreReplacedByThatOfRankZero) {
  const JobFile file(folder_ / "run");
  (void)file.key();
  std::jthread waits([&] {
    const auto entered = Membership::enter(
        world_of(1, 2), {{"TROUPE_JOB_FILE", file.path().string()}}, {"", patience});
    ASSERT_TRUE(entered) << entered.error().what();
    EXPECT_TRUE(entered.value()->leave());
  });
  std::this_thread::sleep_for(milliseconds(50));  // until it has the key; if not, nothing fails
  fs::remove(file.path());
  const auto zero = Membership::enter(world_of(0, 2), {{"TROUPE_JOB_FILE", file.path().string()}},
                                      {"", patience});
  ASSERT_TRUE(zero) << zero.error().what();
  EXPECT_TRUE(zero.value()->leave());
}

TEST_F(JobFiles, NobodyHasClaimedAreRemovedForTheirOwnKeyOnly) {
  const JobFile file(folder_ / "run");
  const JobKey key = file.key();
  file.remove_unclaimed(JobKey::generate());
  EXPECT_TRUE(fs::exists(file.path()));
  file.publish(key, "tcp://127.0.0.1:1");
  file.remove_unclaimed(key);
  EXPECT_TRUE(fs::exists(file.path()));
}

TEST_F(JobFiles, OfACoordinatorThatDiedBeforeTheWorldWasWholeGo) {
  const JobFile file(folder_ / "run");
  file.publish(file.key(), "tcp://127.0.0.1:1");  // nobody listens there
  EXPECT_FALSE(enter_alone(file));
  EXPECT_FALSE(fs::exists(file.path()));
}

TEST_F(JobFiles, OfACoordinatorThatDiedGoWithTheSurvivors) {
  Survivor one(folder_ / "run");
  EXPECT_TRUE(fs::exists(one.file.path()));
  one.coordinator.reset();
  one.membership.reset();
  EXPECT_FALSE(fs::exists(one.file.path()));
}

TEST_F(JobFiles, StayWhileTheCoordinatorIsThereThoughAMemberGivesUp) {
  Survivor one(folder_ / "run");
  one.membership.reset();
  EXPECT_TRUE(fs::exists(one.file.path()));
}

TEST_F(JobFiles, OfTheNextJobStayWhenTheSurvivorsOfTheLastGo) {
  Survivor one(folder_ / "run"), next(folder_ / "next");
  one.coordinator.reset();
  one.file.publish(next.key, next.coordinator->endpoint());
  one.membership.reset();
  EXPECT_EQ(one.file.coordinator(), next.coordinator->endpoint());
}

TEST(JobKeys, SurviveBeingWrittenDown) {
  const JobKey key = JobKey::generate();
  EXPECT_EQ(JobKey::parse(key.text()), key);
  EXPECT_THAT(key.text(), testing::MatchesRegex("[0-9a-f]+"));
  EXPECT_NE(JobKey::generate(), key);
}

TEST(JobKeys, AreNotRepeatedWhenTheyAreWrong) {
  for (const std::string& text : {std::string("secret"), std::string(64, 'x')}) {
    try {
      (void)JobKey::parse(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::Not(HasSubstr(text)));
    }
  }
}

}  // namespace
}  // namespace troupe
