#pragma once
// Children of a benchmark: this very program with other arguments, a pipe in and a pipe out.

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

extern char** environ;

namespace troupe::control_bench {

class Child {
 public:
  explicit Child(std::vector<std::string> arguments) {
    int in[2] = {-1, -1};
    int out[2] = {-1, -1};
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) _exit(1);
    arguments.insert(arguments.begin(), "/proc/self/exe");
    std::vector<char*> pointers;
    pointers.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    if (posix_spawn(&pid_, pointers[0], &actions, nullptr, pointers.data(), environ) != 0) _exit(1);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    in_ = in[1];
    out_ = out[0];
  }
  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        in_(std::exchange(other.in_, -1)),
        out_(std::exchange(other.out_, -1)) {}
  ~Child() {
    if (pid_ < 0) return;
    close(in_);
    close(out_);
    int status = 0;
    kill(pid_, SIGKILL);
    waitpid(pid_, &status, 0);
  }

  void signal(char word) const {
    if (write(in_, &word, 1) != 1) _exit(1);
  }
  /// The next line of its output, without the line's end; empty when it has ended.
  std::string line() const {
    std::string text;
    for (char c = 0; read(out_, &c, 1) == 1 && c != '\n';) text += c;
    return text;
  }

 private:
  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
};

/// In a child: waits for a word of the parent.
inline void await_word() {
  char word = 0;
  if (read(STDIN_FILENO, &word, 1) != 1) _exit(1);
}

}  // namespace troupe::control_bench
