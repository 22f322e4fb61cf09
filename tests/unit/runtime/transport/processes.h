#pragma once
// Ranks of a communicator as processes of their own, for tests and benchmarks.

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/transport/store.h"

namespace troupe::test {

/// A Store of files in a folder, so that forked processes can meet.
class FolderStore final : public Store {
 public:
  explicit FolderStore(std::filesystem::path folder) : folder_(std::move(folder)) {}
  Status put(const std::string& key, std::string value) override;
  Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) override;
  /// Once in all: it does not know who asks.
  Result<std::string> claim(const std::string& key, std::chrono::milliseconds timeout) override;

 private:
  std::filesystem::path file(const std::string& key) const;
  std::filesystem::path folder_;
};

/// Forked processes of this program; those that are left are killed in the end.
class Processes {
 public:
  /// Runs `part` in a process a rank. Its result is the exit status; 99 after an exception, which
  /// is printed.
  Processes(int size, const std::function<int(int rank, Store& store)>& part);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  Store& store() { return store_; }
  pid_t pid(int rank) const { return pids_.at(static_cast<std::size_t>(rank)); }
  /// Waits for the end; the exit status, or minus the signal.
  int wait(int rank);

 private:
  std::filesystem::path folder_;
  FolderStore store_;
  std::vector<pid_t> pids_;
};

}  // namespace troupe::test
