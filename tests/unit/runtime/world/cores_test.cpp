#include "runtime/world/cores.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>
#include <set>

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

/// Cores of two siblings each, numbered as Linux does: 0..n-1, then the siblings n..2n-1.
std::vector<Cpu> cores(int count) {
  std::vector<Cpu> cpus;
  for (int core = 0; core < count; ++core)
    for (const int number : {core, core + count}) cpus.push_back({.number = number, .core = core});
  return cpus;
}

TEST(CoreShares, HoldWholePhysicalCores) {
  EXPECT_THAT(share_of(cores(4), 0, 2), ElementsAre(0, 4, 1, 5));
  EXPECT_THAT(share_of(cores(4), 1, 2), ElementsAre(2, 6, 3, 7));
}

TEST(CoreShares, GiveTheRemainderToTheFirst) {
  EXPECT_THAT(share_of(cores(3), 0, 2), ElementsAre(0, 3, 1, 4));
  EXPECT_THAT(share_of(cores(3), 1, 2), ElementsAre(2, 5));
}

TEST(CoreShares, CutThroughCoresWhereThereAreTooFew) {
  EXPECT_THAT(share_of(cores(1), 0, 2), ElementsAre(0));
  EXPECT_THAT(share_of(cores(1), 1, 2), ElementsAre(1));
}

TEST(CoreShares, TakeTurnsWhereThereAreMoreProcessesThanCpus) {
  EXPECT_THAT(share_of(cores(1), 2, 3), ElementsAre(0));
  EXPECT_THAT(share_of({}, 0, 1), IsEmpty());
}

TEST(CoreShares, CoverEveryCpuOnceWhateverTheNumber) {
  for (int count = 1; count <= 9; ++count)
    for (int parts = 1; parts <= 2 * count; ++parts) {
      std::multiset<int> seen;
      for (int part = 0; part < parts; ++part)
        for (const int cpu : share_of(cores(count), part, parts)) seen.insert(cpu);
      EXPECT_EQ(seen.size(), static_cast<std::size_t>(2 * count)) << parts;
      EXPECT_EQ(std::set<int>(seen.begin(), seen.end()).size(), seen.size()) << parts;
    }
}

TEST(UsableCpus, AreThoseOfTheProcess) {
  const auto cpus = usable_cpus();
  ASSERT_FALSE(cpus.empty());
  EXPECT_EQ(usable_cpus("/nowhere").size(), cpus.size());
}

class CpuQuota : public testing::Test {
 protected:
  CpuQuota() { fs::create_directories(folder_); }
  ~CpuQuota() override { fs::remove_all(folder_); }

  void write(const fs::path& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  std::optional<double> read() const { return cpu_quota(folder_ / "groups", folder_ / "own"); }

  fs::path folder_ = fs::temp_directory_path() / ("troupe-quota-" + std::to_string(::getpid()));
};

TEST_F(CpuQuota, IsTheLeastOnTheWayUp) {
  write("own", "0::/user/job\n");
  write("groups/user/cpu.max", "150000 100000\n");
  write("groups/user/job/cpu.max", "max 100000\n");
  EXPECT_EQ(read(), 1.5);
  write("groups/user/job/cpu.max", "50000 100000\n");
  EXPECT_EQ(read(), 0.5);
}

TEST_F(CpuQuota, IsReadFromVersionOne) {
  write("own", "9:memory:/x\n4:cpu,cpuacct:/job\n");
  write("groups/cpu/job/cpu.cfs_quota_us", "400000\n");
  write("groups/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(read(), 4.0);
  write("groups/cpu/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(read(), std::nullopt);
}

TEST_F(CpuQuota, IsNoneWhereNothingCanBeRead) {
  EXPECT_EQ(read(), std::nullopt);
  write("own", "0::/user\ngarbage\n::\n");
  write("groups/user/cpu.max", "many 100000\n");
  EXPECT_EQ(read(), std::nullopt);
}

TEST(OpenMpThreads, AreTheFirstNumberOfAList) {
  EXPECT_EQ(openmp_threads("4"), 4);
  EXPECT_EQ(openmp_threads("4,2"), 4);
  EXPECT_EQ(openmp_threads(" 2"), 2);
  EXPECT_EQ(openmp_threads("\t8 , 4 ,2 "), 8);
}

TEST(OpenMpThreads, AreNoneWhereOpenMpIgnoresTheText) {
  for (const char* text :
       {"", " ", "two", "0", "-1", "4x", "4,", ",4", "4,two", "4 2", "1.5", "99999999999"})
    EXPECT_EQ(openmp_threads(text), std::nullopt) << text;
}

TEST(CoreShare, IsDividedWhereTheLauncherDidNotBind) {
  World world{.rank = 1, .size = 2, .local_rank = 1, .local_size = 2, .launcher = "slurm"};
  const auto all = usable_cpus();
  const auto share = core_share(world, {{"SLURM_CPU_BIND_TYPE", "none"}});
  EXPECT_FALSE(share.bound_by_launcher);
  EXPECT_EQ(share.cpus, share_of(all, 1, 2));
}

TEST(CoreShare, IsEverythingWhereTheLauncherBound) {
  World world{.rank = 1, .size = 2, .local_rank = 1, .local_size = 2, .launcher = "slurm"};
  const auto all = usable_cpus();
  const auto share = core_share(world, {{"SLURM_CPUS_PER_TASK", std::to_string(all.size())}});
  EXPECT_TRUE(share.bound_by_launcher);
  EXPECT_EQ(share.cpus.size(), all.size());
  EXPECT_GE(share.threads, 1);
}

TEST(CoreShare, StartsNoMoreThreadsThanSlurmHasAllocated) {
  World world{.size = 2, .local_size = 1, .launcher = "slurm"};
  EXPECT_EQ(core_share(world, {{"SLURM_CPUS_ON_NODE", "1"}}).threads, 1);
  EXPECT_EQ(core_share(world, {{"SLURM_CPUS_PER_TASK", "1"}, {"SLURM_CPUS_ON_NODE", "64"}}).threads,
            1);
}

TEST(CoreShare, DividesWhatSlurmHasAllocatedOnTheNode) {
  World world{.size = 2, .local_size = 2, .launcher = "slurm"};
  const Environment bound{{"SLURM_CPU_BIND_TYPE", "mask_cpu"}, {"SLURM_CPUS_ON_NODE", "2"}};
  EXPECT_EQ(core_share(world, bound, std::nullopt).threads, 1);
}

TEST(NodeCores, AreThoseOfTheLauncherNotOfTheHost) {
  const World world{.size = 4, .local_size = 4, .launcher = "troupe launch"};
  const Environment bound{{"TROUPE_CPUS", "0"}, {"TROUPE_NODE_CPUS", "2"}};
  EXPECT_EQ(node_cores(world, bound, std::nullopt), 2);
  EXPECT_EQ(node_cores(world, bound, 1.5), 1);
  EXPECT_EQ(node_cores({.size = 4, .local_size = 4, .launcher = "slurm"},
                       {{"SLURM_CPUS_ON_NODE", "3"}}, std::nullopt),
            3);
  EXPECT_GE(node_cores({.size = 4, .local_size = 4, .launcher = "slurm"}, {}, std::nullopt), 4);
}

TEST(CoreShare, DividesTheQuota) {
  World world{.size = 2, .local_size = 2};
  const Environment bound{{"TROUPE_CPUS", "0"}};
  EXPECT_EQ(core_share(world, bound, 2.0).threads, 1);
  EXPECT_EQ(threads_for(8, 6.5, 2), 3);
  EXPECT_EQ(threads_for(2, 6.5, 2), 2);
  EXPECT_EQ(threads_for(8, 0.5, 4), 1);
  EXPECT_EQ(threads_for(8, std::nullopt, 4), 8);
}

}  // namespace
}  // namespace troupe
