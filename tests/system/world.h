#pragma once
// `troupe train` in several processes, for the tests of what comes of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/system/background.h"
#include "tests/system/process.h"

namespace troupe {

using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more);

/// -r KEY=VALUE for each.
Words with(const Words& settings);
Words partition_of(int pipeline, int data);

int count_of(const std::string& text, const std::string& part);

/// A folder with the options file of a short run of `steps` steps, in two stages of two replicas.
class World : public testing::Test {
 protected:
  static constexpr int steps = 16;

  World();
  ~World() override;

  Words train_words(const std::string& output, const Words& more = {}) const;
  static Words launch_words(int processes, const Words& program);
  /// Trains into a folder of that name.
  Outcome train(int processes, const std::string& output, const Words& more = {}) const;
  /// A program that does `script`, and then follows commands.
  std::string wrapper(const std::string& script) const;

  std::string digest(const std::string& output) const;
  /// The digest of one process that is not interrupted.
  std::string reference(const Words& more = {}) const;
  int newest_step(const std::string& output) const;

  using Launchers = std::vector<std::unique_ptr<Background>>;
  struct LongRun {
    Launchers launchers;
    std::string timeout;           ///< of silence, as errors tell it
    std::chrono::seconds silence;  ///< the same as a number
  };
  /// The middle of a run that is long enough, with checkpoints, which `launch` starts with these
  /// words. Whoever is silent is lost after `timeout` seconds, or twice as many where processes
  /// need more to find each other on this machine, and so on. Throws where that does not help.
  LongRun begin_long_run(int timeout, const std::function<Launchers(const Words&)>& launch) const;
  /// Four processes of one launcher.
  LongRun begin_long_run(int timeout = 20, const Words& more = {}) const;
  /// Calls `lose` with the timeout of a run in which somebody falls silent. It returns whether the
  /// run was over within three times that; a machine too busy gets more, up to four times.
  bool ends_in_time(int timeout, const std::function<bool(int timeout)>& lose) const;
  pid_t process_of(int rank) const;
  void expect_nothing_is_left() const;
  /// The run goes on from its newest checkpoint as if nothing had been.
  void expect_it_goes_on(int processes) const;

  std::filesystem::path root_;
};

}  // namespace troupe
