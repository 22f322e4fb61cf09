// bench/gpu: the command for a machine with a GPU and its predictions, as far as they run without
// one.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/system/process.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class FirstLight : public testing::Test {
 protected:
  FirstLight() {
    std::string pattern = (fs::temp_directory_path() / "troupe_first_light_XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
  }
  ~FirstLight() override { fs::remove_all(root_); }

  void SetUp() override {
    if (std::string_view(TROUPE_CUDA_ON_CPU).empty())
      GTEST_SKIP() << "no emulator: it needs the headers of a CUDA toolkit, and no sanitizer";
    if (run_process({"/usr/bin/env", "python3", "--version"}).exit_code != 0)
      GTEST_SKIP() << "no python3";
  }
  Outcome python(const std::string& program, std::vector<std::string> words) const {
    const fs::path build = fs::path(TROUPE_BINARY).parent_path().parent_path();
    words.insert(words.begin(), {"/usr/bin/env", "python3",
                                 std::string(TROUPE_SOURCE_DIR) + "/bench/gpu/" + program,
                                 "--build", build.string()});
    return run_process(words, root_.string());
  }
  std::string text(const std::string& file) const {
    std::ostringstream all;
    all << std::ifstream(root_ / "found" / file).rdbuf();
    return all.str();
  }

  fs::path root_;
};

TEST_F(FirstLight, RunsEachStepOnTheEmulatorOrSaysWhyNot) {
  const Outcome outcome = python("first_light", {"--emulator", "--minutes", "4", "found"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.error << text("results.md");
  const std::string found = text("results.md");
  EXPECT_THAT(found, HasSubstr("| contract | passed |"));
  EXPECT_THAT(found, HasSubstr("6 runs of 2 steps end with 1 digest(s)"));
  EXPECT_THAT(found, HasSubstr("| resumption | passed |"));
  EXPECT_THAT(found, HasSubstr("| sanitizer | not run |"));
  EXPECT_THAT(found, HasSubstr("compute-sanitizer needs a GPU"));
  EXPECT_THAT(found, AllOf(HasSubstr("| wide_f32 | passed |"), HasSubstr("PyTorch, eager"),
                           HasSubstr("| replicas | passed |"), HasSubstr("with CUDA graphs")));
  EXPECT_THAT(text("results.json"), HasSubstr("\"images_per_second\""));
  EXPECT_THAT(text("logs/contract.log"), HasSubstr("[       OK ]"));
}

TEST_F(FirstLight, GoesOnAfterTheStepsThatHaveRun) {
  const Outcome first = python("first_light", {"--emulator", "found", "--steps", "device"});
  ASSERT_EQ(first.exit_code, 0) << first.out << first.error;
  const Outcome second =
      python("first_light", {"--emulator", "--resume", "found", "--steps", "device", "sanitizer"});
  ASSERT_EQ(second.exit_code, 0) << second.out << second.error;
  EXPECT_THAT(second.out, AllOf(HasSubstr("sanitizer: not run"), Not(HasSubstr("device: "))));
  EXPECT_THAT(text("results.md"), AllOf(HasSubstr("| device |"), HasSubstr("| sanitizer |")));
}

TEST_F(FirstLight, SaysThatTimeIsUp) {
  const Outcome outcome = python("first_light", {"--emulator", "--minutes", "0.05", "found"});
  EXPECT_EQ(outcome.exit_code, 75);
  EXPECT_THAT(outcome.out, HasSubstr("--resume continues"));
}

// Trainings that end with another digest each time.
TEST_F(FirstLight, FailsWhereBitsDiffer) {
  const Outcome outcome = run_process(
      {"/usr/bin/env", "PYTHONDONTWRITEBYTECODE=1",
       "PYTHONPATH=" + std::string(TROUPE_SOURCE_DIR) + "/bench/gpu", "python3", "-c", R"(
from types import SimpleNamespace
import steps
class Trainings:
    digests = 0
    def train(self, *words, **options): pass
    def digest(self, folder):
        self.digests += 1
        return f"{self.digests:016}"
call = SimpleNamespace(place=SimpleNamespace(emulator=True), trainings=Trainings)
print(steps.same_bits(call)["failed"]))"},
      root_.string());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_EQ(outcome.out,
            "['again', 'two stages', 'two replicas', 'CUDA graphs', 'resident images']\n");
}

TEST_F(FirstLight, RefusesAFolderThatItCannotUse) {
  std::ofstream(root_ / "file") << "words";
  const Outcome file = python("first_light", {"--emulator", "file"});
  EXPECT_EQ(file.exit_code, 1);
  EXPECT_THAT(file.error, HasSubstr("first_light: error: file"));
  fs::create_directory(root_ / "found");
  for (const char* damaged : {"{", "[]", R"({"steps": {"device": {}}})",
                              R"({"steps": {"device": {"status": "odd", "seconds": 1}}})"}) {
    std::ofstream(root_ / "found" / "results.json") << damaged;
    const Outcome outcome = python("first_light", {"--emulator", "--resume", "found"});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.error, HasSubstr("results.json is damaged; name another folder"));
  }
}

TEST_F(FirstLight, RefusesAFolderThatAnotherOneUses) {
  fs::create_directories(root_ / "found/logs");
  const int lock = ::open((root_ / "found/.lock").c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  const Outcome outcome = python("first_light", {"--emulator", "found"});
  ::close(lock);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.error, HasSubstr("another first_light uses found; name another folder"));
}

TEST_F(FirstLight, TakesNoOtherLimitThanANumber) {
  for (const char* minutes : {"nan", "inf", "-1", "ten"}) {
    const Outcome outcome = python("first_light", {"--emulator", "--minutes", minutes, "found"});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.error, HasSubstr("argument --minutes: invalid minutes value"));
  }
}

TEST_F(FirstLight, SaysWhatIsMissing) {
  const Outcome outcome = run_process(
      {"/usr/bin/env", "python3", std::string(TROUPE_SOURCE_DIR) + "/bench/gpu/first_light",
       "--build", (root_ / "nothing").string(), "found"},
      root_.string());
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("troupe is missing"), HasSubstr("./dev build")));
}

#ifdef TROUPE_WITH_CUDA
TEST_F(FirstLight, IsCarriedWithTheLibrariesThatItNeeds) {
  const Outcome packed = python("pack", {"pack"});
  ASSERT_EQ(packed.exit_code, 0) << packed.error;
  EXPECT_THAT(packed.out, HasSubstr("to be found there: libcublasLt.so"));
  EXPECT_TRUE(fs::exists(root_ / "pack/build/release/lib/carried/libdnnl.so.2"));
  const Outcome outcome =
      run_process({(root_ / "pack/bench/gpu/first_light").string(), "found", "--steps", "contract"},
                  root_.string());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.error;
  EXPECT_THAT(outcome.out, testing::AnyOf(HasSubstr("contract: passed"), HasSubstr("no GPU: ")));
}

TEST_F(FirstLight, IsPackedIntoNoFolderThatHoldsSomethingElse) {
  fs::create_directory(root_ / "full");
  std::ofstream(root_ / "full" / "thesis.tex") << "words";
  const Outcome packed = python("pack", {"full"});
  EXPECT_EQ(packed.exit_code, 1);
  EXPECT_THAT(packed.error, HasSubstr("full holds something else"));
  EXPECT_TRUE(fs::exists(root_ / "full" / "thesis.tex"));
}
#endif

TEST_F(FirstLight, PredictsStepTimesFromWhatIsRecorded) {
  const Outcome outcome = python("predict", {"--tiny", "wide_f32", "replicas"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("| images/s |"), HasSubstr("8 replicas"), HasSubstr(": 8 replicas")));
}

}  // namespace
}  // namespace troupe
