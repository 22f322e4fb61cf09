#include "tests/system/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <regex>
#include <stdexcept>

namespace troupe {
namespace {

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Closer>;

std::string content(std::FILE* file) {
  std::rewind(file);
  std::string text;
  char chunk[4096];
  for (std::size_t n = 0; (n = std::fread(chunk, 1, sizeof chunk, file)) > 0;)
    text.append(chunk, n);
  return text;
}

}  // namespace

Outcome run_process(const std::vector<std::string>& words, const std::string& folder) {
  std::vector<char*> arguments;
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const File out(std::tmpfile()), error(std::tmpfile());
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    ::dup2(::open("/dev/null", O_RDONLY), 0);
    ::dup2(::fileno(out.get()), 1);
    ::dup2(::fileno(error.get()), 2);
    if (::chdir(folder.c_str()) == 0) ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, content(out.get()), content(error.get())};
}

std::string digest_in(const Outcome& outcome) {
  std::smatch found;
  const bool any = std::regex_search(outcome.out, found, std::regex("[0-9a-f]{64}"));
  EXPECT_TRUE(any) << outcome.error;
  return any ? found.str() : outcome.error;
}

}  // namespace troupe
