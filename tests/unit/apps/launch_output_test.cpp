// What processes print, line by line on the launcher's console and into files.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "apps/launch/output.h"
#include "runtime/error.h"
#include "runtime/print.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

using testing::HasSubstr;

TEST(LaunchPrefix, FillsEveryMacroIn) {
  EXPECT_EQ(prefix_of("${a}-${b}${a}:${c}", {{"a", "1"}, {"b", "${a}"}}), "1-${a}1:${c}");
}

class LaunchOutput : public testing::Test {
 protected:
  LaunchOutput() { console_ = new_file(folder_ / "console"); }

  static void write(const Fd& to, const std::string& text) {
    ASSERT_EQ(::write(to.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  std::string content(const char* name) const {
    std::ifstream stream(folder_ / name);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  const test::TemporaryFolder folder_;
  Fd console_;
};

TEST_F(LaunchOutput, KeepsLinesOfSeveralWritersApart) {
  OutputPump pump;
  std::vector<std::jthread> writers;
  for (const char* name : {"a", "b", "c"})
    writers.emplace_back([name, end = pump.add(folder_ / name, console_.get(), "<")] {
      for (int i = 0; i < 300; ++i)
        for (const char* part : {name, name, "\n"}) write(end, part);
    });
  writers.clear();
  pump.finish();
  std::istringstream lines(content("console"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    EXPECT_TRUE(line == "<aa" || line == "<bb" || line == "<cc") << line;
  EXPECT_EQ(count, 900);
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(content(name).size(), 900u);
}

TEST_F(LaunchOutput, EndsThoughAWriterHoldsItsEndOpen) {
  OutputPump pump;
  const Fd end = pump.add(folder_ / "file", console_.get(), "> ");
  write(end, "one\nno end");
  pump.finish();
  EXPECT_EQ(content("file"), "one\nno end");
  EXPECT_EQ(content("console"), "> one\n> no end\n");
}

// What a process wrote at its end, while the copying thread waited for its turn on a busy machine.
TEST_F(LaunchOutput, KeepsAllThatAPipeHoldsAtTheEnd) {
  const std::string text(60'000, 'y');
  for (int round = 0; round < 20; ++round) {
    const std::string name = "file" + std::to_string(round);
    OutputPump pump;
    const Fd end = pump.add(folder_ / name, console_.get(), "");
    write(end, text);
    pump.finish();
    EXPECT_EQ(content(name.c_str()), text);
  }
}

TEST_F(LaunchOutput, BreaksLinesThatNeverEnd) {
  OutputPump pump;
  const std::string text(200'000, '\xff');
  write(pump.add(folder_ / "file", console_.get(), ""), text);
  pump.finish();
  EXPECT_EQ(content("file"), text);
  std::string console = content("console");
  EXPECT_GE(std::count(console.begin(), console.end(), '\n'), 2);
  std::erase(console, '\n');
  EXPECT_EQ(console, text);
}

TEST_F(LaunchOutput, GoesOnWhereTheDiskIsFullAndSaysSoOnce) {
  testing::internal::CaptureStderr();
  {
    OutputPump pump;
    const Fd end = pump.add("/dev/full", console_.get(), "> ");
    write(end, "one\n");
    while (content("console").empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    write(end, "two\n");
    pump.finish();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            std::string(program_name()) +
                " launch: /dev/full cannot be written: No space left on "
                "device; later output is missing there\n");
  EXPECT_EQ(content("console"), "> one\n> two\n");
}

TEST_F(LaunchOutput, IsRefusedWhereNoFileCanBeMade) {
  OutputPump pump;
  EXPECT_THROW(pump.add("/proc/no/file", console_.get(), ""), Error);
}

}  // namespace
}  // namespace troupe
