// peak_memory FILE PROGRAM WORDS…: runs the program and leaves the most memory that it had at once,
// in KiB, in FILE.RANK, RANK as in the environment ("alone" without). Ends as the program does.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const char* rank = std::getenv("RANK");
  const std::string file = std::string(argv[1]) + "." + (rank ? rank : "alone");
  const pid_t child = ::fork();
  if (child == 0) {
    ::execv(argv[2], argv + 2);
    ::_exit(127);
  }
  int status = 0;
  rusage used{};
  if (child < 0 || ::wait4(child, &status, 0, &used) != child) return 1;
  std::ofstream(file) << used.ru_maxrss << '\n';
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
