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
using testing::AnyOf;
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
  /// Of the modules of bench/gpu; what it prints.
  std::string said(const std::string& code) const {
    const Outcome outcome = run_process(
        {"/usr/bin/env", "PYTHONDONTWRITEBYTECODE=1",
         "PYTHONPATH=" + std::string(TROUPE_SOURCE_DIR) + "/bench/gpu", "python3", "-c", code},
        root_.string());
    EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
    return outcome.out;
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
  EXPECT_THAT(found, HasSubstr("15 runs of 2 steps end with 4 digests in 4 precisions"));
  EXPECT_THAT(found, HasSubstr("| resumption | passed |"));
  EXPECT_THAT(found, HasSubstr("| sanitizer | not run |"));
  EXPECT_THAT(found, HasSubstr("compute-sanitizer needs a GPU"));
  // PyTorch computes this row where it is and sees a GPU.
  EXPECT_THAT(found, AnyOf(HasSubstr("| wide_f32 | passed |"),
                           AllOf(HasSubstr("| wide_f32 | not run |"), HasSubstr(", unchecked; "))));
  EXPECT_THAT(found, AllOf(HasSubstr("images/s"), HasSubstr("PyTorch, eager"),
                           HasSubstr("| replicas | passed |"), HasSubstr("with CUDA graphs")));
  EXPECT_THAT(text("results.json"), HasSubstr("\"images_per_second\""));
  EXPECT_THAT(text("logs/contract.log"), HasSubstr("[       OK ]"));
}

TEST_F(FirstLight, EndsWhereNoGpuIs) {
  ::setenv("CUDA_ON_CPU_DEVICES", "0", 1);
  const Outcome outcome = python("first_light", {"--emulator", "found"});
  ::unsetenv("CUDA_ON_CPU_DEVICES");
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out;
  EXPECT_THAT(outcome.error, HasSubstr("first_light: error: nothing was measured: "));
  EXPECT_THAT(outcome.error, HasSubstr("no CUDA-capable device is detected"));
  EXPECT_THAT(text("results.md"), HasSubstr("| device | not run |"));
}

TEST_F(FirstLight, GoesOnAfterTheStepsThatHaveRun) {
  const Outcome first = python("first_light", {"--emulator", "found", "--steps", "device"});
  ASSERT_EQ(first.exit_code, 0) << first.out << first.error;
  const Outcome second =
      python("first_light", {"--emulator", "--resume", "--steps", "device,sanitizer", "found"});
  ASSERT_EQ(second.exit_code, 0) << second.out << second.error;
  EXPECT_THAT(second.out, AllOf(HasSubstr("sanitizer: not run"), Not(HasSubstr("device: "))));
  EXPECT_THAT(text("results.md"), AllOf(HasSubstr("- device: the emulator"),
                                        HasSubstr("| device |"), HasSubstr("| sanitizer |")));

  std::string other = text("results.json");
  const std::string emulator = R"("the emulator")";
  other.replace(other.find(emulator), emulator.size(), R"("NVIDIA H100")");
  std::ofstream(root_ / "found/results.json") << other;
  const Outcome third = python("first_light", {"--emulator", "--resume", "found"});
  EXPECT_EQ(third.exit_code, 1);
  EXPECT_THAT(third.error, HasSubstr("measured with another device: NVIDIA H100; "
                                     "here it is the emulator; name another folder"));
}

TEST_F(FirstLight, NamesTheStepsAndRowsThatThereAre) {
  const Outcome steps = python("first_light", {"--emulator", "--steps", "device,odd", "found"});
  EXPECT_EQ(steps.exit_code, 2);
  EXPECT_THAT(steps.error, HasSubstr("no step 'odd'; the steps are device, contract"));
  const Outcome rows = python("predict", {"wide_f32", "odd"});
  EXPECT_EQ(rows.exit_code, 2);
  EXPECT_THAT(rows.error, HasSubstr("no row 'odd'; the rows are wide_bf16, wide_tf32"));
}

TEST_F(FirstLight, SaysThatItCannotWriteResults) {
  fs::create_directories(root_ / "found/results.part");
  const Outcome outcome = python("first_light", {"--emulator", "found", "--steps", "sanitizer"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("sanitizer: not run"));
  EXPECT_THAT(outcome.error, HasSubstr("error: found/results.json: Is a directory; name another"));
}

TEST_F(FirstLight, SaysThatTimeIsUp) {
  const Outcome outcome = python("first_light", {"--emulator", "--minutes", "0.05", "found"});
  EXPECT_EQ(outcome.exit_code, 75);
  EXPECT_THAT(outcome.out, HasSubstr("--resume continues"));
}

// Trainings that end with another digest each time.
TEST_F(FirstLight, FailsWhereBitsDiffer) {
  EXPECT_EQ(said(R"(
from types import SimpleNamespace
import steps
class Trainings:
    digests = 0
    def train(self, *words, **options): pass
    def digest(self, folder):
        self.digests += 1
        return f"{self.digests:016}"
call = SimpleNamespace(place=SimpleNamespace(emulator=True), trainings=Trainings)
print(steps.same_bits(call)["failed"]))"),
            "['32-true, again', '32-true, two stages', '32-true, two replicas', "
            "'32-true, CUDA graphs', '32-true, resident images', 'tf32, again', "
            "'tf32, two stages', 'bf16-mixed, again', 'bf16-mixed, two stages', "
            "'16-mixed, again', '16-mixed, two stages']\n");
}

// Trainings that are refused, for the reason of an old GPU or for another.
TEST_F(FirstLight, FailsWhereTrainingInAPrecisionIsRefused) {
  EXPECT_EQ(said(R"(
from types import SimpleNamespace
import steps
from results import Refused
def refused(because):
    def train(options, count, **more):
        raise Refused(because)
    trainings = lambda: SimpleNamespace(train=train)
    return steps.precisions(SimpleNamespace(place=SimpleNamespace(emulator=True), trainings=trainings))["failed"]
print(refused("an odd reason"))
print(refused("the device cuda:0 does not multiply in bf16")))"),
            "['64-true', '32-true', 'tf32', 'bf16-mixed', '16-mixed']\n"
            "[]\n");
}

// A run that ends by itself before it is killed, and one that begins anew.
TEST_F(FirstLight, FailsWhereNoKilledRunIsResumed) {
  EXPECT_EQ(said(R"(
import contextlib
from pathlib import Path
from types import SimpleNamespace
import steps
def outcome(code):
    @contextlib.contextmanager
    def started(words, **more):
        (Path(words[-1]) / "checkpoints/step_00000001").mkdir(parents=True)
        yield SimpleNamespace(poll=lambda: code)
    steps.started = started
    trainings = SimpleNamespace(command=lambda *words: "model: 4 blocks", digest=lambda folder: "0" * 16)
    place = SimpleNamespace(emulator=True, environment={}, troupe="troupe", command=lambda *words: words)
    try:
        steps.resumption(SimpleNamespace(place=place, deadline=1e9, trainings=lambda: trainings))
    except Exception as error:
        print(type(error).__name__, error, sep=": ")
for code in (None, 0, 134):
    outcome(code))"),
            "Failed: the killed run began anew\n"
            "NotRun: the run ended before it could be killed\n"
            "Failed: the run that was to be killed ended with 134\n");
}

TEST_F(FirstLight, RunsEachTestOfTheDeviceInOneStep) {
  const fs::path tests = fs::path(TROUPE_BINARY).parent_path() / "cuda_tests";
  EXPECT_EQ(
      said("program = '" + tests.string() + R"('
import subprocess
import steps
def chosen(pattern):
    words = [program, "--gtest_list_tests", "--gtest_filter=" + pattern]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    suites = [line for line in lines if line.endswith(".")]
    return suites, sum(line.startswith("  ") for line in lines)
found = {step: chosen(pattern) for step, pattern in steps.FILTERS.items()}
print(sum(count for _, count in found.values()) == chosen("*")[1])
print(found["pipelines"][0]))"),
      "True\n['CudaGraph.', 'CudaPipeline.', 'CudaResident.', 'MicroBatches/CudaGraphBound.']\n");
}

TEST_F(FirstLight, TakesNoStepWithoutATestAsPassed) {
  EXPECT_EQ(said(R"(
from types import SimpleNamespace
import steps
place = SimpleNamespace(emulator=False, loader=[], tests="tests", command=lambda *words: words)
skipped = "test.cpp:7: Skipped\nno cuDNN\n\n[  SKIPPED ] A.B (0 ms)\n"
ran = "[       OK ] A.C (1 ms)\n"
for code, output in ((0, ""), (0, skipped), (0, skipped + ran), (127, "no such library\n")):
    found = steps.tests("*", "*")(SimpleNamespace(place=place, run=lambda command: (code, output)))
    status = "failed" if found["failed"] else found.get("status", "passed")
    print(status, found.get("why", found["summary"]), sep=": "))"),
            "failed: no test ran\n"
            "not run: all 1 tests were skipped: no cuDNN\n"
            "passed: 1 passed, 0 failed, 1 skipped\n"
            "failed: 0 passed, 0 failed; it ended with 127 in its start\n");
}

TEST_F(FirstLight, TimesNoRowWhoseLossesAreWrongOrDoNotFall) {
  EXPECT_EQ(said(R"(
from types import SimpleNamespace
import comparison, rows, trainings
comparison.write_samples = lambda *words: None
def ask_peer(*words, lr, steps, **more):
    call.asked = (f"train.lr={lr}", steps)
    return {"losses": theirs}
def train(options, steps):
    assert call.asked[0] in options and call.asked[1] == steps
    return [{"loss": loss} for loss in ours]
comparison.ask_peer = ask_peer
call = SimpleNamespace(trainings=lambda: SimpleNamespace(train=train))
falling = [4.0, 3.0, 2.0]
for ours, theirs in ((falling, falling), ([4.1, 3.0, 2.0], falling), ([4.0, 3.0, 2.2], falling),
                     ([4.0, float("nan"), 2.0], falling), (falling, [float("nan")] * 3),
                     ([4.0, 3.9, 3.7], [4.0, 3.9, 3.7])):
    try:
        print(comparison.check_losses(call, rows.ROWS[0], rows.ROWS[0].work)["note"])
    except trainings.Failed as error:
        print(str(error).partition(": [")[0]))"),
            "the first loss is within 0.0e+00 of PyTorch's, 3 losses within 0.0e+00\n"
            "wrong result, so not timed: the first loss is within 2.5e-02 of PyTorch's, "
            "3 losses within 2.5e-02\n"
            "wrong result, so not timed: the first loss is within 0.0e+00 of PyTorch's, "
            "3 losses within 1.0e-01\n"
            "wrong result, so not timed: the first loss is within 0.0e+00 of PyTorch's, "
            "3 losses within nan\n"
            "wrong result, so not timed: the first loss is within nan of PyTorch's, "
            "3 losses within nan\n"
            "not timed: the losses do not fall, so agreement proves nothing\n");
}

// Readings of Troupe and of one mode of PyTorch are kept where the other mode is too slow.
TEST_F(FirstLight, KeepsReadingsOfARowThatIsCut) {
  EXPECT_EQ(said(R"(
from types import SimpleNamespace
import contextlib, subprocess
import comparison, results, rows
class Trainings:
    readings = 0
    def rate(self, *words):
        Trainings.readings += 1
        if Trainings.readings > 1:
            raise subprocess.TimeoutExpired("troupe", 1)
        return {"images_per_second": 300, "least": 299, "most": 301}
def ask_peer(call, work, precision, mode, share, **more):
    if mode == "compile":
        raise results.NotRun("too slow")
    reading = {"images_per_second": 200, "least": 199, "most": 201}
    return {**reading, "ways": {"gathered": reading, "prepared": reading}}
comparison.ask_peer = ask_peer
comparison.check_losses = lambda *words: {"who": "check", "note": "alike"}
comparison.Watch = lambda off: contextlib.nullcontext(SimpleNamespace(seen=dict))
for short in (False, True):
    Trainings.readings = 0
    call = SimpleNamespace(place=SimpleNamespace(emulator=False), trainings=Trainings, short=short)
    found = comparison.against_pytorch(rows.ROWS[0])(call)
    print(found["status"], found["failed"], *(row["who"] for row in found["table"]), sep=", ")
print(found["summary"].partition("bf16-mixed: ")[2]))"),
            "passed, [], check, Troupe, PyTorch, eager, Troupe again, PyTorch, compile\n"
            "not run, [], check, Troupe, PyTorch, eager, Troupe again, PyTorch, compile\n"
            "300 images/s; without PyTorch's compile: too slow\n");
}

// The losses of a second form of the same work, and of one with other batches.
TEST_F(FirstLight, TimesNoFormOfAWorkWhoseLossesDiffer) {
  EXPECT_EQ(said(R"(
from types import SimpleNamespace
import comparison, rows, trainings
class Trainings:
    def rate(self, work, *words):
        losses = changed if "=" in "".join(work.parallel) else [2.0, 1.5]
        return {"images_per_second": 200, "least": 199, "most": 201, "losses": losses}
call = SimpleNamespace(place=SimpleNamespace(emulator=False), trainings=Trainings)
pairs = {pair.key: pair for pair in rows.PAIRS}
for key in ("two_stages", "wide_any_order", "replicas"):
    for changed in ([2.0, 1.5], [2.0, 1.5001], [2.0, 1.6], [2.0, float("nan")]):
        try:
            print(key, comparison.of_divisions(pairs[key])(call)["summary"].rpartition("; ")[2].rpartition("batches, ")[2])
        except trainings.Failed as error:
            print(key, str(error).partition(": ")[2].partition(":")[0]))"),
            "two_stages the first 2 losses are equal\n"
            "two_stages the first 2 losses differ by up to 6.7e-05\n"
            "two_stages the first 2 losses differ by up to 6.7e-02\n"
            "two_stages a loss is not finite\n"
            "wide_any_order the first 2 losses are equal\n"
            "wide_any_order the first 2 losses are within 6.7e-05\n"
            "wide_any_order the first 2 losses differ by up to 6.7e-02\n"
            "wide_any_order a loss is not finite\n"
            "replicas losses not compared\n"
            "replicas losses not compared\n"
            "replicas losses not compared\n"
            "replicas a loss is not finite\n");
}

TEST_F(FirstLight, TellsAnErrorOfTheSanitizerFromARunThatSaysNothing) {
  EXPECT_EQ(said(R"(
import steps
ran = "[ RUN      ] A.B\n"
for code, output in ((0, ran + "[       OK ] A.B (1 ms)\n"), (0, "no tests\n"),
                     (9, "========= Invalid read\n"), (None, ran),
                     (None, "========= Invalid read\n"), (77, "skipped, no GPU: none\n"),
                     (1, ran + "[  FAILED  ] A.B (1 ms)\n"), (-11, ran),
                     (1, "========= Error: Device not supported\n"),
                     (9, "========= error: not supported\n" + ran + "========= Invalid write\n")):
    print(*steps.sanitized(code, output)[:2], sep=": "))"),
            "passed: no error\n"
            "not run: exit 0 without a test: no tests\n"
            "failed: errors\n"
            "not run: time limit after 0 tests\n"
            "failed: errors\n"
            "not run: skipped, no GPU: none\n"
            "failed: 1 tests failed: A.B\n"
            "failed: exit -11 in A.B\n"
            "not run: Error: Device not supported\n"
            "failed: errors\n");
}

TEST_F(FirstLight, RecordsAStepThatFailedAsFailedWhateverElseItSays) {
  EXPECT_EQ(said(R"(
import importlib.machinery, importlib.util, tempfile
from pathlib import Path
from types import SimpleNamespace
import results, steps
loader = importlib.machinery.SourceFileLoader("first_light", str(Path(steps.__file__).parent / "first_light"))
module = importlib.util.module_from_spec(importlib.util.spec_from_loader("first_light", loader))
loader.exec_module(module)
found = {"summary": "", "failed": ["racecheck"], "status": "passed"}
status, found = module.run(SimpleNamespace(run=lambda call: found), None)
with tempfile.TemporaryDirectory() as folder:
    kept = results.Results(Path(folder), False, {})
    kept.add("sanitizer", status, 1, found)
    print(kept.steps["sanitizer"]["status"]))"),
            "failed\n");
}

TEST_F(FirstLight, EndsWhatAProgramHasStartedWithIt) {
  EXPECT_EQ(said(R"(
import subprocess, time
from pathlib import Path
from processes import started
with started(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, text=True) as outer:
    inner = Path("/proc") / outer.stdout.readline().strip() / "stat"
def alive():
    return inner.exists() and " Z " not in inner.read_text()
end = time.monotonic() + 10
while alive() and time.monotonic() < end:
    time.sleep(0.01)
print(alive()))"),
            "False\n");
}

// The outer program reads from a pipe until the program that was started has ended.
TEST_F(FirstLight, IsOutlivedByNoProgramThatItHasStarted) {
  EXPECT_EQ(said(R"(
import subprocess, sys
killed = """
import os, signal
from processes import started
with started(["sleep", "600"]):
    os.kill(os.getpid(), signal.SIGKILL)
"""
print(subprocess.run([sys.executable, "-c", killed], stdout=subprocess.PIPE, timeout=60).returncode))"),
            "-9\n");
}

// A folder is named to the loader only for what it does not find by itself.
TEST_F(FirstLight, TakesTheLibrariesThatTheLoaderFinds) {
  for (const char* folder : {"bin", "b/bin", "b/lib/troupe", "conda/lib"})
    fs::create_directories(root_ / folder);
  for (const char* file : {"b/bin/troupe", "b/bin/cuda_device_tests",
                           "b/lib/troupe/libtroupe_cuda.so", "conda/lib/libcudnn.so.9"})
    std::ofstream(root_ / file) << "";
  std::ofstream(root_ / "bin/ldd") << R"(#!/bin/sh
echo 'libcudart.so.13 => /opt/runpath/libcudart.so.13 (0x0)'
case "$LD_LIBRARY_PATH" in
  */conda/lib) echo "libcudnn.so.9 => $PWD/conda/lib/libcudnn.so.9" ;;
  *) echo "libcudnn.so.9 => not found" ;;
esac
)";
  fs::permissions(root_ / "bin/ldd", fs::perms::owner_all);
  EXPECT_EQ(said(R"(
import os
import place
here = os.getcwd()
os.environ["PATH"] = f"{here}/bin:{os.environ['PATH']}"
os.environ["CONDA_PREFIX"] = f"{here}/conda"
os.environ.pop("LD_LIBRARY_PATH", None)
everywhere = place.cuda_folders()
for folders in ([], [folder for folder in everywhere if "conda" in str(folder)]):
    place.cuda_folders = lambda: folders
    found = place.Place("b", False)
    missing = found.missing() or ""
    print(missing.partition(", with")[0])
    print(found.environment["LD_LIBRARY_PATH"].replace(here, "")))"),
            "the loader does not find libcudnn.so.9\n/opt/runpath\n"
            "\n/opt/runpath:/conda/lib\n");
}

TEST_F(FirstLight, RefusesAFolderThatItCannotUse) {
  std::ofstream(root_ / "file") << "words";
  const Outcome file = python("first_light", {"--emulator", "file"});
  EXPECT_EQ(file.exit_code, 1);
  EXPECT_THAT(file.error, HasSubstr("first_light: error: file"));
  fs::create_directory(root_ / "found");
  const auto expect_damaged = [&] {
    const Outcome outcome = python("first_light", {"--emulator", "--resume", "found"});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.error, HasSubstr("results.json is damaged; name another folder"));
  };
  const std::string begin = R"({"measured_with": {}, "steps": {"device": {)";
  for (const std::string& damaged :
       {std::string("{"), std::string("[]"), begin + "}}}",
        begin + R"("status": "odd", "seconds": 1}}})",
        begin + R"("status": "passed", "seconds": 1, "table": 5}}})"}) {
    std::ofstream(root_ / "found" / "results.json") << damaged;
    expect_damaged();
  }
  fs::remove(root_ / "found/results.json");
  fs::create_directory(root_ / "found/results.json");
  expect_damaged();
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
  EXPECT_TRUE(fs::exists(root_ / "pack/tests/golden/graphs/vit.pt2"));
  const Outcome outcome =
      run_process({(root_ / "pack/bench/gpu/first_light").string(), "found", "--steps", "contract"},
                  root_.string());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.error;
  EXPECT_THAT(outcome.out, AnyOf(HasSubstr("contract: passed"), HasSubstr("no GPU: ")));
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
