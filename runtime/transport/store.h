#pragma once
// A place where the processes of a job leave small things for each other: addresses, keys, sizes.

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/error.h"

namespace troupe {

/// Keys to bytes, shared by the processes of a job. Of any thread.
///
/// Values are small (addresses, not tensors). A key can be put again: who asks later gets the
/// later value, so whoever must not see a former one writes its generation into the key.
class Store {
 public:
  virtual ~Store() = default;

  /// Returns when every later get, by any process, finds the value. Error{peer_lost} if
  /// the store is gone.
  virtual Status put(const std::string& key, std::string value) = 0;

  /// Waits until somebody has put the key. Error{timed_out} names the key; zero asks without
  /// waiting. Error{peer_lost} at once if the store is gone.
  virtual Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) = 0;

  /// For what one process is to do for all: the first that claims a key gets an empty value, each
  /// time it asks, and is the one to put it (not empty); the others wait and get what it puts. When
  /// it leaves or is lost before, the next one gets the empty value. The loss of others ends no
  /// claim; other errors as for get.
  virtual Result<std::string> claim(const std::string& key, std::chrono::milliseconds timeout) = 0;
};

/// A Store for the threads of one process, each of which counts as a process.
class MemoryStore final : public Store {
 public:
  Status put(const std::string& key, std::string value) override;
  Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) override;
  Result<std::string> claim(const std::string& key, std::chrono::milliseconds timeout) override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::thread::id> claimed_;
};

}  // namespace troupe
