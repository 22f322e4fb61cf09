#pragma once
// The command called in this process, for tests of what its verbs print.

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "apps/command.h"

namespace troupe {

struct Ran {
  int code = 0;
  std::string out, error;
};

/// `troupe` with these words, and with the definitions of a program.
inline Ran run_troupe(std::vector<std::string> words, const Definitions& own = {}) {
  words.insert(words.begin(), "troupe");
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run_command(static_cast<int>(arguments.size()), arguments.data(), own);
  std::fflush(stdout);
  const std::string out = testing::internal::GetCapturedStdout();
  return {code, out, testing::internal::GetCapturedStderr()};
}

}  // namespace troupe
