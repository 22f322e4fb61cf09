#include "tests/system/slurm_cluster.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

namespace troupe {
namespace {

namespace fs = std::filesystem;

bool in_path(const std::string& program) {
  for (const char* folder : {"/usr/bin/", "/usr/sbin/", "/bin/", "/sbin/"})
    if (fs::exists(folder + program)) return true;
  return false;
}

/// "name=value" of /proc/PID/environ, where that may be read.
std::vector<std::string> environment_of(const fs::path& process) {
  std::ifstream file(process / "environ", std::ios::binary);
  std::vector<std::string> variables;
  for (std::string variable; std::getline(file, variable, '\0');) variables.push_back(variable);
  return variables;
}

/// The parent's process number, from the fourth word of /proc/PID/stat.
std::string parent_of(const fs::path& process) {
  std::ifstream file(process / "stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos || end + 4 > text.size()) return {};
  const std::size_t begin = end + 4;
  return text.substr(begin, text.find(' ', begin) - begin);
}

/// What the pipe has to say until `ready` or its end, or nothing after the time.
std::string first_line(int pipe, std::chrono::seconds limit) {
  std::string text;
  const auto end = std::chrono::steady_clock::now() + limit;
  while (text.find('\n') == std::string::npos) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd waiting{pipe, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) <= 0) break;
    std::array<char, 256> chunk;
    const ssize_t count = ::read(pipe, chunk.data(), chunk.size());
    if (count <= 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(count));
  }
  return text;
}

}  // namespace

std::string SlurmCluster::missing() {
  if (::geteuid() != 0) return "a Slurm of one's own needs root";
  for (const char* program : {"munged", "slurmctld", "slurmd", "srun", "unshare"})
    if (!in_path(program))
      return std::string(program) + " is not installed; ./dev test installs it where it may";
  const std::string probe = "unshare --pid --mount-proc --fork true 2>/dev/null";
  // NOLINTNEXTLINE(bugprone-command-processor): a constant text
  if (std::system(probe.c_str()) != 0) return "this machine gives out no PID namespaces";
  return {};
}

SlurmCluster::SlurmCluster(int nodes) {
  std::string pattern = (fs::temp_directory_path() / "troupe_slurm_XXXXXX").string();
  folder_ = ::mkdtemp(pattern.data());
  try {
    start(nodes);
  } catch (...) {
    stop();
    throw;
  }
}

SlurmCluster::~SlurmCluster() { stop(); }

void SlurmCluster::start(int nodes) {
  std::array<int, 2> alive{}, said{};
  if (::pipe2(alive.data(), O_CLOEXEC) != 0 || ::pipe2(said.data(), O_CLOEXEC) != 0)
    throw std::runtime_error("no pipe");
  const std::string script = TROUPE_SOURCE_DIR "/tests/system/slurm/cluster.sh";
  const std::string count = std::to_string(nodes);
  script_ = ::fork();
  if (script_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(alive[0], 0);
    ::dup2(said[1], 1);
    const int log = ::open((folder_ / "script.log").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ::dup2(log, 2);
    ::execl(script.c_str(), script.c_str(), folder_.c_str(), count.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(alive[0]);
  ::close(said[1]);
  keep_alive_ = alive[1];
  const std::string line = first_line(said[0], std::chrono::seconds(150));
  ::close(said[0]);
  if (line == "ready\n") return;
  std::ifstream log(folder_ / "script.log");
  throw std::runtime_error("Slurm did not start: " + line +
                           std::string(std::istreambuf_iterator<char>(log), {}));
}

void SlurmCluster::stop() {
  if (keep_alive_ >= 0) ::close(keep_alive_);
  if (script_ > 0) {
    ::kill(script_, SIGKILL);  // unshare --kill-child hands it to the namespace's first process
    ::waitpid(script_, nullptr, 0);
  }
  std::error_code ignored;
  // A daemon may still write while the kernel ends it.
  for (int tries = 0; tries < 50 && fs::exists(folder_, ignored); ++tries) {
    fs::remove_all(folder_, ignored);
    if (fs::exists(folder_, ignored)) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Outcome SlurmCluster::run(const std::vector<std::string>& words, const std::string& folder,
                          std::chrono::seconds limit) const {
  // Jobs of clusters that run beside this one have the same numbers, and keep their files at home.
  std::vector<std::string> all = {"/usr/bin/env",
                                  "SLURM_CONF=" + configuration().string(),
                                  "HOME=" + folder_.string(),
                                  "timeout",
                                  "--kill-after=5",
                                  std::to_string(limit.count())};
  all.insert(all.end(), words.begin(), words.end());
  return run_process(all, folder);
}

std::string SlurmCluster::submit(const fs::path& script, const std::string& folder,
                                 const std::vector<std::string>& options) const {
  std::vector<std::string> words = {"sbatch", "--parsable"};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back(script.string());
  const Outcome outcome = run(words, folder);
  if (outcome.exit_code != 0) throw std::runtime_error("sbatch: " + outcome.error);
  return outcome.out.substr(0, outcome.out.find_first_of(";\n"));
}

std::string SlurmCluster::state(const std::string& job) const {
  const std::string text = run({"scontrol", "show", "job", "-o", job}).out;
  const std::size_t found = text.find("JobState=");
  if (found == std::string::npos) return {};
  const std::size_t begin = found + 9;
  return text.substr(begin, text.find(' ', begin) - begin);
}

std::string SlurmCluster::wait_for_end(const std::string& job, std::chrono::seconds limit) const {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (true) {
    std::string now = state(job);
    const bool queued = now == "PENDING" || now == "RUNNING" || now == "COMPLETING" ||
                        now == "CONFIGURING" || now == "SUSPENDED" || now == "REQUEUED";
    if (!queued || std::chrono::steady_clock::now() > end) return now;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

pid_t SlurmCluster::process_of(const std::string& job, int rank) const {
  // Clusters of tests that run beside this one number their jobs alike.
  const std::string wanted_cluster = "SLURM_CONF=" + configuration().string();
  const std::string wanted_job = "SLURM_JOB_ID=" + job;
  const std::string wanted_rank = "SLURM_PROCID=" + std::to_string(rank);
  std::vector<std::string> matches, parents;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto variables = environment_of(entry.path());
    const auto has = [&](const std::string& variable) {
      return std::count(variables.begin(), variables.end(), variable) > 0;
    };
    // The batch script has a rank too, but no step of its own.
    if (!has(wanted_cluster) || !has(wanted_job) || !has(wanted_rank) ||
        has("SLURM_STEP_ID=4294967291"))
      continue;
    const bool in_step = std::any_of(variables.begin(), variables.end(), [](const auto& variable) {
      return variable.starts_with("SLURM_STEP_NODELIST=");
    });
    if (!in_step) continue;
    matches.push_back(name);
    parents.push_back(parent_of(entry.path()));
  }
  // What the task started itself has its environment too: the task is the one whose parent has not.
  for (std::size_t i = 0; i < matches.size(); ++i) {
    if (std::count(matches.begin(), matches.end(), parents[i]) > 0) continue;
    pid_t process = -1;
    std::from_chars(matches[i].data(), matches[i].data() + matches[i].size(), process);
    return process;
  }
  return -1;
}

}  // namespace troupe
