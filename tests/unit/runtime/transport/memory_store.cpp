#include "memory_store.h"

#include <fmt/format.h>

#include "runtime/text.h"

namespace troupe {

Status MemoryStore::put(const std::string& key, std::string value) {
  {
    const std::lock_guard lock(mutex_);
    values_[key] = std::move(value);
  }
  changed_.notify_all();
  return success();
}

Result<std::string> MemoryStore::get(const std::string& key, std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto there = [&] { return values_.count(key) != 0; };
  if (!changed_.wait_for(lock, timeout, there))
    return Error(ErrorCode::timed_out, fmt::format("no process put '{}' into the store within {}",
                                                   key, in_words(timeout)));
  return values_.at(key);
}

Result<std::string> MemoryStore::claim(const std::string& key, std::chrono::milliseconds timeout) {
  {
    const std::lock_guard lock(mutex_);
    const auto self = std::this_thread::get_id();
    const auto claim = claimed_.try_emplace(key, self).first;
    if (values_.count(key) == 0 && claim->second == self) return std::string();
  }
  return get(key, timeout);
}

}  // namespace troupe
