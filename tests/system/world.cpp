#include "tests/system/world.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr auto recipe = R"(
seed: 5
model: {name: mnist_cnn, classes: 4}
data: {name: synthetic, shape: [1, 8, 8], classes: 4, count: 320, mean: [0.5], std: [0.25], augment: [flip]}
train: {epochs: 1, batch_size: 20, micro_batches: 5, lr: 0.05}
parallel: {pipeline: 2, data: 2, timeout: 20s}
checkpoint: {keep: 0}
)";

/// Whether what ended a run was its timeout, not a defect.
bool is_impatient(const std::string& output) {
  return std::ranges::any_of(
      std::array{"did not join within", "no heartbeat for", "received no answer", " within "},
      [&](const char* words) { return output.find(words) != std::string::npos; });
}

}  // namespace

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words with(const Words& settings) {
  Words words;
  for (const auto& setting : settings) words = words + Words{"-r", setting};
  return words;
}
Words partition_of(int pipeline, int data) {
  return with(
      {"parallel.pipeline=" + std::to_string(pipeline), "parallel.data=" + std::to_string(data)});
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
    ++count;
  return count;
}

World::World() {
  std::string pattern = (fs::temp_directory_path() / "troupe_world_XXXXXX").string();
  root_ = ::mkdtemp(pattern.data());
  std::ofstream(root_ / "options.yaml") << recipe;
  ::setenv("TMPDIR", root_.c_str(), 1);
}

World::~World() {
  ::unsetenv("TMPDIR");
  fs::remove_all(root_);
}

Words World::train_words(const std::string& output, const Words& more) const {
  return Words{TROUPE_BINARY, "train", (root_ / "options.yaml").string(), "-o",
               (root_ / output).string()} +
         more;
}

Words World::launch_words(int processes, const Words& program) {
  return Words{TROUPE_BINARY,
               "launch",
               "--standalone",
               "--nproc-per-node",
               std::to_string(processes),
               "--grace-period",
               "5",
               "--"} +
         program;
}

Outcome World::train(int processes, const std::string& output, const Words& more) const {
  const Words words = train_words(output, more);
  return Background(processes == 1 ? words : launch_words(processes, words)).wait();
}

std::string World::wrapper(const std::string& script) const {
  const fs::path path = root_ / "wrapper.sh";
  std::ofstream(path) << "#!/bin/sh\n" << script << "\nexec \"$@\"\n";
  fs::permissions(path, fs::perms::owner_all);
  return path.string();
}

std::string World::digest(const std::string& output) const {
  const Outcome ran =
      run_process({TROUPE_BINARY, "inspect", "--digest", (root_ / output).string()});
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  return ran.out;
}

std::string World::reference(const Words& more) const {
  const Outcome ran = train(1, "reference", partition_of(1, 1) + more);
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  std::string digest_of_it = digest("reference");
  fs::remove_all(root_ / "reference");
  return digest_of_it;
}

int World::newest_step(const std::string& output) const {
  int newest = 0;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root_ / output / "checkpoints", none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step_") && name.size() == 13)
      newest = std::max(newest, std::stoi(name.substr(5)));
  }
  return newest;
}

World::LongRun World::begin_long_run(int timeout,
                                     const std::function<Launchers(const Words&)>& launch) const {
  for (;; timeout *= 2) {
    const std::string seconds = std::to_string(timeout);
    const Words settings = with(
        {"train.epochs=5000", "checkpoint.every_steps=5", "parallel.timeout=" + seconds + "s"});
    LongRun run{launch(train_words("out", settings)), seconds + " s",
                std::chrono::seconds(timeout)};
    const auto all_run = [&] {
      return std::ranges::all_of(run.launchers, [](const auto& one) { return one->runs(); });
    };
    if (comes_true([&] { return newest_step("out") >= 5 || !all_run(); }) && all_run()) return run;
    std::string output;
    for (const auto& launcher : run.launchers)
      output += launcher->wait(std::chrono::seconds(20)).error;
    if (timeout > 30 || !is_impatient(output))
      throw std::runtime_error("the run has not begun: " + output);
    fs::remove_all(root_ / "out");
  }
}

World::LongRun World::begin_long_run(int timeout, const Words& more) const {
  return begin_long_run(timeout, [&](const Words& words) {
    Launchers launchers;
    launchers.push_back(std::make_unique<Background>(launch_words(4, words + more)));
    return launchers;
  });
}

bool World::ends_in_time(int timeout, const std::function<bool(int timeout)>& lose) const {
  const int most = 4 * timeout;
  for (; timeout <= most; timeout *= 2) {
    fs::remove_all(root_ / "out");
    if (lose(timeout) || HasFailure()) return true;
  }
  return false;
}

pid_t World::process_of(int rank) const {
  const auto found = processes_with({"RANK=" + std::to_string(rank), (root_ / "out").string()});
  EXPECT_EQ(found.size(), 1u);
  return found.empty() ? -1 : found.front();
}

void World::expect_nothing_is_left() const {
  EXPECT_TRUE(comes_true([&] { return processes_with({(root_ / "out").string()}).empty(); }));
}

void World::expect_it_goes_on(int processes) const {
  const int reached = newest_step("out");
  const Words end = with({"train.epochs=5000", "train.steps=" + std::to_string(reached + 10)});
  const Outcome rest = train(processes, "out", Words{"--restart", "auto"} + end);
  EXPECT_EQ(rest.exit_code, 0) << rest.error;
  EXPECT_THAT(rest.out, HasSubstr("at step " + std::to_string(reached)));
  EXPECT_EQ(digest("out"), reference(end));
}

}  // namespace troupe
