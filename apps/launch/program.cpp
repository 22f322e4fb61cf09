// Which program a launched command means.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "apps/launch/launch_options.h"
#include "runtime/error.h"
#include "runtime/print.h"
#include "runtime/text.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

bool can_run(const fs::path& path) {
  return fs::is_regular_file(path) && ::access(path.c_str(), X_OK) == 0;
}

/// The file that a shell would run for this word; empty if there is none.
fs::path found(const std::string& word) {
  if (word.find('/') != word.npos) return can_run(word) ? fs::path(word) : fs::path();
  const char* path = std::getenv("PATH");
  std::string_view folders = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  while (!folders.empty()) {
    const auto end = std::min(folders.find(':'), folders.size());
    fs::path candidate = fs::path(folders.substr(0, end)) / word;
    if (end > 0 && can_run(candidate)) return candidate;
    folders.remove_prefix(std::min(end + 1, folders.size()));
  }
  return {};
}

}  // namespace

Program program_of(const std::vector<std::string>& command, const std::vector<std::string>& verbs) {
  // Those that make sense in several processes.
  constexpr std::array<std::string_view, 3> launched{"train", "doctor", "--version"};
  if (command.empty())
    throw Error(ErrorCode::usage, "launch: there is no command to start",
                fmt::format("{} launch --standalone --nproc-per-node 2 -- train options.yaml",
                            program_name()));
  const std::string& word = command.front();
  if (!verbs.empty() && std::ranges::find(launched, word) != launched.end()) {
    Program self{fs::read_symlink("/proc/self/exe"), {std::string(program_name())}, true};
    self.words.insert(self.words.end(), command.begin(), command.end());
    return self;
  }
  if (std::ranges::find(verbs, word) != verbs.end())
    throw Error(ErrorCode::usage,
                fmt::format("launch: {} {} runs in one process and cannot be launched",
                            program_name(), word),
                word == "plan"
                    ? fmt::format("{} plan FILE --nnodes N --nproc-per-node N", program_name())
                    : fmt::format("{} {}, without launch", program_name(), word));
  if (const auto path = found(word); !path.empty()) return {path, command};
  if (fs::path(word).extension() == ".py")
    throw Error(ErrorCode::usage, fmt::format("launch: {} is not an executable program", word),
                fmt::format("{} launch ... -- python3 {}", program_name(), word));
  if (fs::exists(word))
    throw Error(ErrorCode::usage, fmt::format("launch: {} is not an executable program", word),
                fs::path(word).extension() == ".yaml"
                    ? fmt::format("{} launch ... -- train {}", program_name(), word)
                    : fmt::format("chmod +x {}", word));
  if (word.find('/') != word.npos)
    throw Error(ErrorCode::usage,
                fmt::format("launch: program {} was not found", word.substr(0, 128)),
                "check the path");
  const std::string near = meant(word, launched);
  throw Error(ErrorCode::usage,
              fmt::format("launch: {} is neither a verb of {} nor a program", word.substr(0, 128),
                          program_name()),
              fmt::format("{} program of the current folder is ./{}",
                          near.empty() ? "the verbs to launch are train and doctor; a"
                                       : fmt::format("did you mean {}? A", near),
                          word.substr(0, 64)));
}

}  // namespace troupe
