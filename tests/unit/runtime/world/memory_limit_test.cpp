#include "runtime/world/memory_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace troupe {
namespace {

namespace fs = std::filesystem;

class MemoryLimits : public testing::Test {
 protected:
  MemoryLimits() { fs::create_directories(folder_); }
  ~MemoryLimits() override { fs::remove_all(folder_); }

  void write(const fs::path& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  MemoryLimit read(const Environment& environment = {}) const {
    return memory_limit(environment, folder_ / "groups", folder_ / "own");
  }
  void expect_memory_of_the_host() const {
    EXPECT_EQ(read().holder, "this host");
    EXPECT_GT(read().bytes, std::uint64_t{64} << 20);
    EXPECT_LT(read().bytes, std::uint64_t{1} << 50);
  }

  fs::path folder_ = fs::temp_directory_path() / ("troupe-memory-" + std::to_string(::getpid()));
};

TEST_F(MemoryLimits, AreTheLeastOfTheGroupAndThoseAboveIt) {
  write("own", "0::/user/job\n");
  write("groups/user/memory.max", "8388608\n");
  write("groups/user/job/memory.max", "max\n");
  EXPECT_EQ(read().bytes, 8388608u);
  EXPECT_EQ(read().holder, "this job");
  write("groups/user/job/memory.max", "4194304\n");
  EXPECT_EQ(read().bytes, 4194304u);
  write("groups/memory.max", "1048576\n");  // of the root, as a container sees it
  EXPECT_EQ(read().bytes, 1048576u);
}

TEST_F(MemoryLimits, AreReadFromVersionOne) {
  write("own", "9:memory:/slurm/job_7\n4:cpu,cpuacct:/other\n0::/\n");
  write("groups/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("groups/memory/other/memory.limit_in_bytes", "1\n");
  expect_memory_of_the_host();
  write("groups/memory/slurm/job_7/memory.limit_in_bytes", "2097152\n");
  EXPECT_EQ(read().bytes, 2097152u);
}

TEST_F(MemoryLimits, AreThoseOfTheHostWhereNoneIsSet) {
  expect_memory_of_the_host();
  write("own", "0::/user\ngarbage\n::\n");
  for (const char* text : {"max\n", "", "many\n", "-1\n", "0\n", "99999999999999999999999\n"}) {
    write("groups/user/memory.max", text);
    expect_memory_of_the_host();
  }
}

TEST_F(MemoryLimits, CountWhatSlurmGivesOnANode) {
  const auto of_slurm = [&](const char* text) { return read({{"SLURM_MEM_PER_NODE", text}}); };
  EXPECT_EQ(of_slurm("32").bytes, std::uint64_t{32} << 20);
  EXPECT_EQ(of_slurm("32").holder, "this job");
  for (const char* text : {"0", "", "all", "18446744073709551615"})  // 0: all of the node
    EXPECT_EQ(of_slurm(text).holder, "this host") << text;
  write("own", "0::/job\n");
  write("groups/job/memory.max", "4194304\n");
  EXPECT_EQ(of_slurm("32").bytes, 4194304u);
}

}  // namespace
}  // namespace troupe
