// The built command from outside: exit codes, and errors in two lines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "tests/sanitized.h"
#include "tests/system/background.h"
#include "tests/system/process.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;

Outcome troupe_command(std::vector<std::string> words) {
  words.insert(words.begin(), TROUPE_BINARY);
  return run_process(words);
}

/// Two lines, and exit 2: what every wrong command line or option must give.
void expect_usage_error(const Outcome& outcome, const std::string& message,
                        const std::string& remedy) {
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.error, MatchesRegex("troupe: error: [^\n]*\n  try: [^\n]*\n"));
  EXPECT_THAT(outcome.error, AllOf(HasSubstr(message), HasSubstr(remedy)));
}

class Command : public testing::Test {
 protected:
  Command() {
    std::string pattern = (fs::temp_directory_path() / "troupe_command_XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
  }
  ~Command() override { fs::remove_all(root_); }

  std::string file(const std::string& name, const std::string& content) const {
    std::ofstream(root_ / name, std::ios::binary) << content;
    return (root_ / name).string();
  }

  fs::path root_;
};

TEST_F(Command, TellsItsVersionAndHelp) {
  const Outcome version = troupe_command({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  const std::string number = "[0-9]+\\.[0-9.]+";
  EXPECT_THAT(version.out,
              MatchesRegex(
                  "troupe " + number + "\ncompiler: [A-Za-z]+ " + number + "\nlibraries: oneDNN " +
                  number + ", Highway " + number + ", CAF " + number + ", ZeroMQ " + number +
                  "\nCPU: [^\n]+, [a-z]+ with(out)? AVX-512( and AMX)?\nCUDA: (not in this build|" +
                  number + ", kernels for [^\n]+\nGPU: [^\n]+)\n"));
  const Outcome help = troupe_command({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("options"));
}

TEST_F(Command, ShowsItsHelpWithoutAVerb) {
  const Outcome outcome = troupe_command({});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.error, IsEmpty());
  EXPECT_EQ(outcome.out, troupe_command({"--help"}).out);
  EXPECT_EQ(outcome.out, troupe_command({"help"}).out);
  const Outcome of_verb = troupe_command({"help", "train"});
  EXPECT_EQ(of_verb.exit_code, 0);
  EXPECT_EQ(of_verb.out, troupe_command({"train", "--help"}).out);
  expect_usage_error(troupe_command({"help", "trian"}), "unknown verb: trian", "troupe train?");
}

TEST_F(Command, ShowsInItsHelpWhatEachArgumentIs) {
  const std::string train = troupe_command({"train", "--help"}).out;
  EXPECT_THAT(train, HasSubstr("Usage: troupe train [OPTIONS] FILE\n"));
  EXPECT_THAT(train, HasSubstr("\n  FILE                    options file (YAML)"));
  EXPECT_THAT(train, HasSubstr("\n  -r,--override KEY=VALUE "));
  EXPECT_THAT(troupe_command({"export", "--help"}).out,
              AllOf(HasSubstr("Usage: troupe export [OPTIONS] -o FILE CHECKPOINT\n"),
                    HasSubstr("\n  -o,--output FILE ")));
  EXPECT_THAT(troupe_command({"launch", "--help"}).out, HasSubstr("\n  COMMAND ...  "));
  for (const char* verb :
       {"train", "fetch", "plan", "eval", "export", "inspect", "jobscript", "doctor", "options"})
    EXPECT_THAT(troupe_command({verb, "--help"}).out, Not(ContainsRegex(" VALUE |required")));
}

/// Blocks SIGINT in its first thread, as it does while it waits for a request to stop. When it
/// starts, it may block all signals for a moment.
bool awaits_interrupt(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  const auto has = [](std::uint64_t set, int signal) { return (set >> (signal - 1) & 1) != 0; };
  for (std::string word; status >> word;)
    if (std::uint64_t blocked = 0; word == "SigBlk:" && status >> std::hex >> blocked)
      return has(blocked, SIGINT) && !has(blocked, SIGALRM);
  return false;
}

TEST_F(Command, SaysThatAPlanWasStopped) {
  const std::string path = file("o.yaml",
                                "model: {name: wide_resnet, widths: [64, 128, 256, 512]}\n"
                                "data: {name: synthetic, shape: [3, 32, 32], count: 64}\n"
                                "train: {batch_size: 64, micro_batches: 1}\n"
                                "parallel: {pipeline: 2, partition: auto}\n");
  Background process({TROUPE_BINARY, "plan", path});
  ASSERT_TRUE(comes_true([&] { return awaits_interrupt(process.pid()); }));
  process.signal(SIGINT);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.exit_code, 130);
  EXPECT_THAT(outcome.error, HasSubstr("stopped before the plan was complete\n"));
  EXPECT_THAT(outcome.out, IsEmpty());
}

TEST_F(Command, RefusesUnknownVerbsAndFlags) {
  expect_usage_error(troupe_command({"optoins"}), "unknown verb: optoins", "troupe options?");
  expect_usage_error(troupe_command({"options", "--markdwn"}), "--markdwn", "--markdown");
  expect_usage_error(troupe_command({"--verzion"}), "--verzion", "--version");
  expect_usage_error(troupe_command({"options", "a.yaml", "b.yaml"}), "b.yaml", "--help");
  expect_usage_error(troupe_command({"options", "-r"}), "-r needs KEY=VALUE", "-r train.lr=0.05");
  const std::string one_word = "-r needs KEY=VALUE in one word";
  for (const std::vector<std::string>& split :
       {std::vector<std::string>{"train", "o.yaml", "-r", "train.lr", "0.1"},
        {"train", "-r", "train.lr", "0.1", "o.yaml"},
        {"train", "-r", "train.lr", "0.1"},
        {"plan", "o.yaml", "-r", "train.lr", "=", "0.1"},
        {"train", "o.yaml", "-r", "train.lr=", "0.1"},
        {"options", "o.yaml", "--override", "train.lr:", "0.1", "-r", "seed=2"}})
    expect_usage_error(troupe_command(split), one_word, "write -r train.lr=0.1");
  for (const std::vector<std::string>& split :
       {std::vector<std::string>{"train", "o.yaml", "-r", "model.widths=[16,", "16]"},
        {"train", "-r", "model.widths=[16,", "16]", "o.yaml"},
        {"train", "-r", "model.widths=[16,", "16]"}})
    expect_usage_error(troupe_command(split), one_word, "write -r 'model.widths=[16, 16]'");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"train", "o.yaml", "-r", "seed=2", "train.epochs=1",
                                 "data.limit=8"},
        {"train", "-r", "seed=2", "train.epochs=1", "data.limit=8", "o.yaml"}})
    expect_usage_error(troupe_command(words), "each KEY=VALUE needs its own -r",
                       "try: -r train.epochs=1 -r data.limit=8\n");
  expect_usage_error(troupe_command({"train", "-r", "train.lr", "nosuch.yaml"}), one_word,
                     "write -r train.lr=VALUE");
  const std::string own_flags = "each KEY=VALUE needs its own -r";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"train", "-r", "seed=2", "train.epochs=1"},
        {"plan", "--override=seed=2", "train.epochs=1", "o.yaml"},
        {"plan", "-rseed=2", "train.epochs=1"},
        {"train", "--verbose", "train.epochs=1", "o.yaml"},
        {"eval", "train.epochs=1"}})
    expect_usage_error(troupe_command(words), own_flags, "-r train.epochs=1");
  expect_usage_error(troupe_command({"plan", "o.yaml", "model.widths=[8,", "4]"}), own_flags,
                     "-r 'model.widths=[8, 4]'");
  expect_usage_error(troupe_command({"plan", "o.yaml", "data.path=" + std::string(300, 'a')}),
                     own_flags, "-r data.path=aaa");
  expect_usage_error(troupe_command({"eval", "lr=0.1/run"}), "there is no file of such a name", "");
  expect_usage_error(troupe_command({"plan", "o.yaml", "train.betas=[0.9", "-r", "seed=2"}),
                     own_flags, "-r 'train.betas=[0.9'\n");
  expect_usage_error(troupe_command({"-r", "seed=1", "train", "o.yaml"}),
                     "-r stands before its verb", "write troupe train -r ...");
  expect_usage_error(troupe_command({"plan", "run=3.yaml"}), "run=3.yaml: cannot be opened",
                     "recipes/demo.yaml");
  for (const char* word : {":", "["})
    expect_usage_error(troupe_command({"train", "-r", word, "=x"}), one_word, "-r KEY=VALUE");
  expect_usage_error(troupe_command({"options", "-r", "LR=1"}), "unknown key LR", "train.lr");
  for (const auto& [flag, key] :
       {std::pair("--batch-size", "train.batch_size"), std::pair("--base-lr", "train.lr"),
        std::pair("--lr", "train.lr"), std::pair("--epochs", "train.epochs")})
    expect_usage_error(troupe_command({"train", "o.yaml", flag, "3"}), flag,
                       std::string("did you mean -r ") + key + "=VALUE?");
}

TEST_F(Command, NamesASimilarFileForOneThatIsNotThere) {
  const std::filesystem::path path = file("demo.yaml", "seed: 1\n");
  const std::string other = (path.parent_path() / "demo.yml").string();
  expect_usage_error(troupe_command({"options", other}), other + ": cannot be opened",
                     "did you mean demo.yaml?");
  expect_usage_error(troupe_command({"options", "/nowhere/x.yaml"}), "/nowhere/x.yaml: cannot",
                     "recipes/demo.yaml");
}

TEST_F(Command, NamesATabInTheIndentation) {
  const std::string path = file("tab.yaml", "train:\n\tepochs: 3\n");
  expect_usage_error(troupe_command({"options", path}), path + ":2:8: a tab indents this line",
                     "only spaces");
}

TEST_F(Command, NamesFileLineAndNearestKeyOfAWrongOption) {
  const std::string path = file("o.yaml", "train:\n  lr: 0.1\n  epoch: 3\n");
  expect_usage_error(troupe_command({"options", path}), path + ":3:3: unknown key train.epoch",
                     "train.epochs");
  expect_usage_error(troupe_command({"options", path, "-r", "train.lr=fast"}), "train.lr=fast",
                     "0.1");
}

TEST_F(Command, RefusesHostileOptionFiles) {
  for (const std::string& content :
       {std::string("\0\1\2\xff", 4), std::string(5000, '['), std::string(5000, '{'),
        std::string("a: &a [*a]"), std::string("train: {lr: 1"), std::string("- - - 3"),
        std::string(2'000'000, 'x')}) {
    const Outcome outcome = troupe_command({"options", file("hostile.yaml", content)});
    EXPECT_EQ(outcome.exit_code, 2) << content.substr(0, 40) << outcome.error;
    EXPECT_THAT(outcome.error, StartsWith("troupe: error: "));
  }
}

TEST_F(Command, PrintsWhatAFileResolvesTo) {
  const std::string path = file("o.yaml", "train: {epochs: 3}\n");
  const Outcome resolved = troupe_command({"options", path, "-r", "seed=9"});
  EXPECT_EQ(resolved.exit_code, 0);
  EXPECT_THAT(resolved.out, AllOf(HasSubstr("seed: 9\n"), HasSubstr("  epochs: 3\n")));
  EXPECT_EQ(troupe_command({"options", file("again.yaml", resolved.out)}).out, resolved.out);
}

/// The command with what a shell makes of `redirections`, which follow its words.
Outcome redirected(const std::string& words, const std::string& redirections) {
  return run_process({"/bin/sh", "-c", "exec " TROUPE_BINARY " " + words + " " + redirections});
}

TEST_F(Command, KeepsItsExitCodesWhereStandardErrorCannotBeWritten) {
  const std::string recipe = TROUPE_SOURCE_DIR "/recipes/demo.yaml ";
  for (const char* error : {"2>/dev/full", "2>&-"}) {
    SCOPED_TRACE(error);
    EXPECT_EQ(redirected("optoins", error).exit_code, 2);
    EXPECT_EQ(redirected("train " + recipe + "-r train.lr=fast", error).exit_code, 2);
    EXPECT_EQ(redirected("inspect /dev/null", error).exit_code, 1);
    EXPECT_EQ(redirected("launch --nproc-per-node 1 /bin/false", error).exit_code, 1);
    EXPECT_EQ(redirected("options", error).exit_code, 0);
  }
}

TEST_F(Command, TellsThatStandardOutputCannotBeWritten) {
  for (const char* words : {"", "--help", "--version", "options", "options --markdown"})
    for (const char* out : {">/dev/full", ">&-"}) {
      SCOPED_TRACE(std::string(words) + out);
      const Outcome outcome = redirected(words, out);
      EXPECT_EQ(outcome.exit_code, 1);
      EXPECT_THAT(outcome.error, HasSubstr("standard output could not be written"));
    }
}

TEST_F(Command, TrainsWithoutAnythingToWriteTo) {
  const std::string path = file("o.yaml",
                                "model: {name: mlp, widths: [8]}\n"
                                "data: {name: synthetic, shape: [1, 4, 4], count: 640}\n");
  const auto train = [&](const std::string& name, const char* streams) {
    return redirected("train " + path + " -o " + (root_ / name).string(), streams).exit_code;
  };
  EXPECT_EQ(train("closed", ">&- 2>&- <&-"), 0);
  EXPECT_EQ(train("full", ">/dev/full 2>/dev/full"), 0);
  const Outcome told =
      redirected("train " + path + " -o " + (root_ / "told").string(), ">/dev/full");
  EXPECT_EQ(told.exit_code, 0);
  EXPECT_THAT(told.error, HasSubstr("standard output could not be written"));
  for (const char* name : {"closed", "full"}) {
    std::ifstream csv(root_ / name / "train.csv");
    int rows = 0;
    for (std::string line; std::getline(csv, line); ++rows)
      EXPECT_THAT(line, ContainsRegex("^(step|[0-9]+),"));
    EXPECT_EQ(rows, 1 + 10);
  }
}

TEST_F(Command, EndsWithAnErrorWhereThreadsCannotStart) {
  if (is_sanitized) GTEST_SKIP() << "a sanitizer's own memory leaves none to the program";
  const std::string path = file("o.yaml",
                                "model: {name: mlp, widths: [8]}\n"
                                "data: {name: synthetic, shape: [1, 4, 4], count: 640}\n"
                                "precision: 64-true\n"  // without a library that dies by itself
                                "parallel: {pipeline: 2, actor_threads: 4}\n");
  // Each thread takes a stack of 1 GiB of address space, so that threads fail long before memory.
  const std::string limits = "ulimit -c 0; ulimit -s 1048576; ulimit -v \"$0\"; exec \"$@\"";
  int failed = 0;
  for (int gib = 1; gib <= 20; ++gib) {
    const std::string kib = std::to_string(gib * 1'048'576 + 524'288);
    const Outcome outcome = run_process(
        {"/bin/sh", "-c", limits, kib, TROUPE_BINARY, "train", path, "-o", (root_ / kib).string()});
    SCOPED_TRACE(kib + " KiB: " + outcome.error);
    EXPECT_THAT(outcome.exit_code, testing::AnyOf(0, 1));
    EXPECT_EQ(outcome.exit_code == 0, outcome.error.empty());
    failed += outcome.exit_code;
  }
  EXPECT_GT(failed, 0) << "no limit was too low";
}

TEST_F(Command, RefusesMixedPrecisionWithoutTheInstructionsForIt) {
  const std::string path = file("o.yaml",
                                "model: {name: mlp, widths: [8]}\n"
                                "data: {name: synthetic, shape: [1, 4, 4], count: 64}\n"
                                "train: {batch_size: 32}\n"
                                "precision: bf16-mixed\n");
  const std::string output = (root_ / "out").string();
  for (const std::vector<std::string>& verb :
       {std::vector<std::string>{"plan", path}, {"train", path, "-o", output}}) {
    std::vector<std::string> words{"/usr/bin/env", "ONEDNN_MAX_CPU_ISA=AVX512_CORE", TROUPE_BINARY};
    words.insert(words.end(), verb.begin(), verb.end());
    const Outcome outcome = run_process(words);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.error,
                AllOf(HasSubstr("precision is bf16-mixed, but the device cpu does not multiply"),
                      HasSubstr("neither AVX-512 BF16 nor AMX"), HasSubstr("32-true")));
  }
  EXPECT_FALSE(fs::exists(output));
  EXPECT_EQ(troupe_command({"options", path}).exit_code, 0);
}

TEST_F(Command, WarnsThatTheCpuDoesNotRoundToTf32) {
  const std::string path = file("o.yaml",
                                "model: {name: mlp, widths: [8]}\n"
                                "data: {name: synthetic, shape: [1, 4, 4], count: 64}\n"
                                "train: {batch_size: 32}\n"
                                "device: cpu\n");
  const auto digest = [&](const std::string& name, std::vector<std::string> options) {
    const std::string folder = (root_ / name).string();
    options.insert(options.begin(), {"train", path, "-o", folder});
    const Outcome outcome = troupe_command(options);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
    const auto warns = HasSubstr("conv_precision tf32 has no effect on the CPU");
    if (name == "rounded")
      EXPECT_THAT(outcome.out + outcome.error, warns);
    else
      EXPECT_THAT(outcome.out + outcome.error, Not(warns));
    return digest_in(troupe_command({"inspect", "--digest", folder}));
  };
  EXPECT_EQ(digest("rounded", {"-r", "conv_precision=tf32"}), digest("exact", {}));
}

TEST_F(Command, ReadsEveryShippedRecipe) {
  int recipes = 0;
  for (const auto& entry : fs::directory_iterator(TROUPE_SOURCE_DIR "/recipes")) {
    EXPECT_EQ(troupe_command({"options", entry.path().string()}).exit_code, 0) << entry.path();
    ++recipes;
  }
  EXPECT_GT(recipes, 0);
}

}  // namespace
}  // namespace troupe
