#pragma once
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "runtime/transport/store.h"

namespace troupe {

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
