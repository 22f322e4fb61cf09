// Settings that the library's errors name, and the command's words for them.
#include "apps/error_wording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <sstream>
#include <vector>

#include "apps/options/options_table.h"
#include "ops/devices.h"
#include "ops/gpu_library.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

TEST(ErrorWording, NamesTheKeysOfAnOptionsFile) {
  EXPECT_EQ(command_name_of("batch_size"), "train.batch_size");
  EXPECT_EQ(command_name_of("max_steps"), "train.steps");
  EXPECT_EQ(command_name_of("widths"), "model.widths");
  EXPECT_EQ(command_name_of("Model::widths"), "model.widths");
  EXPECT_EQ(command_name_of("Model::classes"), "model.classes");
  EXPECT_EQ(command_name_of("Dataset::classes"), "data.classes");
  EXPECT_EQ(command_name_of("RestartBudget::within"), "restarts.within");
  EXPECT_EQ(command_name_of("within"), "restarts.within");
}

TEST(ErrorWording, NamesFlags) { EXPECT_EQ(command_name_of("MemberOptions::run"), "--rdzv-id"); }

TEST(ErrorWording, HasNoNameForAMemberOfSeveralStructs) {
  EXPECT_EQ(command_name_of("classes"), "");
  EXPECT_EQ(command_name_of("no_such_setting"), "");
}

TEST(ErrorWording, ReplacesSettingsInMessageAndRemedy) {
  const Error worded = in_words_of_the_command(
      Error(ErrorCode::io, "`batch_size` is 0", "raise `batch_size`, or set `Dataset::name`"));
  EXPECT_EQ(worded.code(), ErrorCode::io);
  EXPECT_EQ(worded.message(), "train.batch_size is 0");
  EXPECT_EQ(worded.remedy(), "raise train.batch_size, or set data.name");
}

TEST(ErrorWording, IsACommandForADownload) {
  const auto worded = [](const std::string& setting) { return command_name_of(setting); };
  EXPECT_THAT(worded("fetch mnist"), testing::EndsWith(" fetch mnist"));
  EXPECT_THAT(worded("fetch mnist data"), testing::EndsWith(" fetch mnist -o data"));
  EXPECT_THAT(worded("fetch mnist my data"), testing::EndsWith(" fetch mnist -o 'my data'"));
}

TEST(ErrorWording, IsACommandForABuild) {
  EXPECT_EQ(command_name_of("build with CUDA"), "run ./dev build --cuda");
  EXPECT_EQ(command_name_of("build with CUDA 12"), "run ./dev build --cuda=12");
  EXPECT_EQ(in_words_of_the_command(no_gpu("there is none")).remedy(),
            "run ./dev build --cuda (docs/gpu.md), or set device to cpu");
  EXPECT_EQ(in_words_of_the_command(fit_driver(13000, 12040)),
            "update the driver to 580 or later, or run ./dev build --cuda=12");
}

/// The string literals of a source file, without its comments.
std::vector<std::string> literals_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  static const std::regex token(
      R"re(//[^\n]*|#include[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+')re");
  const std::string source = text.str();
  std::vector<std::string> literals;
  for (std::sregex_iterator at(source.begin(), source.end(), token), end; at != end; ++at)
    if (at->str().front() == '"') literals.push_back(at->str().substr(1, at->length() - 2));
  return literals;
}

/// Calls `check` with each source file of the library and its literals.
void for_each_file(
    const std::function<void(const fs::path&, const std::vector<std::string>&)>& check) {
  int files = 0;
  for (const char* folder : {"runtime", "ops", "actors"})
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(TROUPE_SOURCE_DIR) / folder)) {
      const fs::path& path = entry.path();
      if (path.extension() != ".cpp" && path.extension() != ".h") continue;
      ++files;
      check(path, literals_of(path));
    }
  EXPECT_GT(files, 100);
}

TEST(ErrorWording, KnowsEverySettingThatTheLibraryNames) {
  // Formats of a name, and settings without a key.
  const std::set<std::string> others = {"{}", "prefetch"};
  for_each_file([&](const fs::path& path, const std::vector<std::string>& parts) {
    std::string literals;  // one text may be several literals
    for (const std::string& part : parts) literals += part;
    static const std::regex quoted("`([^`]*)`");
    for (std::sregex_iterator at(literals.begin(), literals.end(), quoted), end; at != end; ++at) {
      const std::string setting = (*at)[1];
      if (others.contains(setting) || setting.find(' ') != std::string::npos) continue;
      EXPECT_NE(command_name_of(setting), "")
          << path << " names `" << setting
          << "`: add it to the flags of apps/error_wording.cpp, or as `.setting` of its key in "
             "apps/options/options_table.cpp";
    }
  });
}

TEST(ErrorWording, IsNotDoneByTheLibraryItself) {
  static const std::regex of_the_command(
      "troupe[: ] ?[a-z]+|(^| )-r |(^|[ "
      "'(])--[a-z]|recipes/|rdzv_|node_rank|nnodes|nproc[-_]per|options "
      "file and|(same|the) options");
  // A literal that is a key as a whole declares an option. Names of data files are no keys.
  static const std::regex key(
      "(train|data|model|parallel|checkpoint|log|restarts)[.](?!npy|npz|csv|json)[a-z_]+");
  for_each_file([](const fs::path& path, const std::vector<std::string>& literals) {
    for (const std::string& literal : literals)
      EXPECT_TRUE(!std::regex_search(literal, of_the_command) &&
                  (std::regex_match(literal, key) || !std::regex_search(literal, key)))
          << path << " says \"" << literal
          << "\": name a setting in back quotes, or let apps/ say it";
  });
}

}  // namespace
}  // namespace troupe
