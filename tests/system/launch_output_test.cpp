// What `troupe launch` shows of its processes and their ends, and what it keeps.
#include <sys/mount.h>

#include <sstream>

#include "tests/system/launch.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

TEST_F(Launch, TeesWholeLinesWithThePrefixOfTheirProcess) {
  const auto ran = run({"--nproc-per-node", "3", "--tee", "3", "--log-dir", "logs"},
                       "for i in $(seq 200); do printf 'a%s' $RANK; printf 'b%s\\n' $i; done; "
                       "echo e$RANK >&2; printf 'no end %s' $RANK");
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  std::vector<std::vector<std::string>> seen(3);
  for (const auto& line : lines(ran.out)) {
    ASSERT_THAT(line, ContainsRegex("^\\[default[0-2]\\]:(a[0-2]b[0-9]+|no end [0-2])$"));
    EXPECT_EQ(line[8], line[11] == 'a' ? line[12] : line.back()) << line;
    seen[static_cast<std::size_t>(line[8] - '0')].push_back(line.substr(11));
  }
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(seen[rank].size(), 201u);
    EXPECT_THAT(seen[rank][199], testing::EndsWith("b200"));
  }
  EXPECT_THAT(ran.error, AllOf(HasSubstr("[default0]:e0\n"), HasSubstr("[default2]:e2\n")));
}

TEST_F(Launch, LaysItsLogFolderOutAsTorchrunDoes) {
  const auto ran =
      run({"--nproc-per-node", "2", "--rdzv-id", "job", "--log-dir", "logs", "-r", "0:1,1:3"},
          "echo out$RANK; echo err$RANK >&2");
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.error, AllOf(HasSubstr("err0"), Not(HasSubstr("err1"))));
  ASSERT_FALSE(fs::is_empty(root_ / "logs"));
  const fs::path job = *fs::directory_iterator(root_ / "logs");
  EXPECT_THAT(job.filename().string(), testing::StartsWith("job_"));
  EXPECT_EQ(content(job / "attempt_0" / "0" / "stdout.log"), "out0\n");
  EXPECT_EQ(content(job / "attempt_0" / "1" / "stdout.log"), "out1\n");
  EXPECT_EQ(content(job / "attempt_0" / "1" / "stderr.log"), "err1\n");
}

TEST_F(Launch, SaysThatAFullDiskMayLackTheEndOfTheOutput) {
  const auto disk = root_ / "disk";
  std::filesystem::create_directory(disk);
  if (::mount("troupe_test", disk.c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "mounting a small tmpfs needs root";
  const auto ran = [&](const std::string& script) {
    return run({"-r", "3", "--log-dir", disk.string()}, script).error;
  };
  const std::string well = ran("echo much"), full = ran("yes | head -c 100000; exit 0");
  ::umount2(disk.c_str(), MNT_DETACH);
  EXPECT_THAT(well, Not(HasSubstr("full")));
  EXPECT_THAT(full, HasSubstr("is full: the end of the output may be missing"));
}

TEST_F(Launch, ShowsOnlyTheRanksAskedFor) {
  const auto ran =
      run({"--nproc-per-node", "3", "--local-ranks-filter", "1"}, "echo out$RANK; echo err >&2");
  EXPECT_EQ(ran.out, "out1\n");
  EXPECT_EQ(ran.error, "err\n");
}

TEST_F(Launch, FillsThePrefixTemplateIn) {
  const auto ran = run({"-t", "1", "--log-dir", "logs", "--role", "trainer",
                        "--log-line-prefix-template", "${role_name}/${rank}/${local_rank} "},
                       "echo x");
  EXPECT_EQ(ran.out, "trainer/0/0 x\n");
}

TEST_F(Launch, TellsWhatTheFailingProcessSaid) {
  const auto ran = run({"--nproc-per-node", "2"},
                       "[ $RANK = 1 ] || exec sleep 60; printf '{\"message\": {\"message\": "
                       "\"ValueError: \\\\u001b[2Jno\", \"extraInfo\": {\"py_callstack\": \"line "
                       "1\\\\nline 2\", \"timestamp\": \"1700000000\"}}}' "
                       "> $TORCHELASTIC_ERROR_FILE; exit 1");
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.error, HasSubstr("  ValueError: ?[2Jno\n  line 1\n  line 2"));
}

TEST_F(Launch, LooksBehindAFailureThatFollowsFromAnother) {
  // Rank 0 sees that its peer is gone before the launcher sees the peer's end.
  const auto ran = run({"--nproc-per-node", "2"},
                       "[ $RANK = 1 ] && { trap '' TERM; touch deaf; sleep 0.3; kill -9 $$; }; "
                       "while [ ! -f deaf ]; do sleep 0.01; done; printf "
                       "'{\"message\": {\"message\": \"rank 1 is lost\", \"extraInfo\": "
                       "{\"kind\": \"peer_lost\"}}}' > $TORCHELASTIC_ERROR_FILE; exit 1");
  EXPECT_EQ(ran.exit_code, 137);
  EXPECT_THAT(ran.error, ContainsRegex("rank 1 \\(local rank 1 .* failed first: signal 9 .*\n"
                                       "  rank 0 on .* reported:\n  rank 1 is lost\n"));
}

TEST_F(Launch, SurvivesADamagedErrorFile) {
  for (const std::string text : {"", "{", "[]", "{\"message\": 3}", "{\"message\": {}}"}) {
    const auto ran = run({}, "printf '%s' '" + text + "' > $TORCHELASTIC_ERROR_FILE; exit 3");
    EXPECT_EQ(ran.exit_code, 3) << text;
    EXPECT_THAT(ran.error, HasSubstr("exit code 3"));
  }
}

TEST_F(Launch, RepeatsAnErrorOnlyWhereItWasNotShown) {
  const auto error_of = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--log-dir", "logs", "--", "train", "nowhere.yaml"});
    const auto ran = troupe(flags);
    EXPECT_EQ(ran.exit_code, 2);
    const auto at = ran.error.find("nowhere.yaml: ");
    EXPECT_EQ(ran.error.rfind("nowhere.yaml: "), at) << "it is printed twice:\n" << ran.error;
    return ran.error;
  };
  const char* shown = "failed first: exit code 2 at .*; its error is above\n";
  EXPECT_THAT(error_of({"--nproc-per-node", "1"}), ContainsRegex(shown));
  EXPECT_THAT(error_of({"--nproc-per-node", "1", "-t", "3"}), ContainsRegex(shown));
  EXPECT_THAT(error_of({"--nproc-per-node", "1", "-r", "3"}),
              ContainsRegex("failed first: exit code 2 at [^;]*\n  nowhere.yaml: "));
}

TEST_F(Launch, RepeatsTheErrorOfARankThatIsNotShown) {
  const auto ran = run({"--nproc-per-node", "2", "--local-ranks-filter", "1"},
                       "[ $RANK = 1 ] && exec sleep 60; exec env -u RANK -u WORLD_SIZE " +
                           std::string(TROUPE_BINARY) + " train nowhere.yaml");
  EXPECT_THAT(ran.error, ContainsRegex("rank 0 .*failed first: .*\n  nowhere.yaml: cannot be"));
}

TEST_F(Launch, TellsAWrongCommandLineOnceAndStartsNothing) {
  const auto ran = troupe({"--nproc-per-node", "3", "--", "train", "o.yaml", "--restrat", "auto"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_EQ(ran.error,
            "troupe: error: troupe train has no option --restrat\n"
            "  try: did you mean --restart? troupe train --help lists all\n");
  EXPECT_THAT(troupe({"--", "train", "o.yaml", "--nproc-per-node", "2"}).error,
              HasSubstr("try: troupe launch --nproc-per-node ... -- train FILE"));
  EXPECT_THAT(troupe({"--", "train", "--config", "o.yaml"}).error,
              HasSubstr("no option --config\n  try: troupe train FILE; "));
}

TEST_F(Launch, SaysWhereTheOutputGoesWhileItGoesThere) {
  const auto shown = [&](const std::vector<std::string>& flags) { return run(flags, ":").error; };
  EXPECT_THAT(shown({"-r", "1", "--log-dir", "logs"}),
              HasSubstr("the output of the processes is in "));
  EXPECT_THAT(shown({"--log-dir", "logs"}),
              HasSubstr("has only the error files of the processes; -r 3 or -t 3"));
  EXPECT_EQ(shown({}), "");
}

}  // namespace
}  // namespace troupe
