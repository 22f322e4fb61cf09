#pragma once
// The store of a job: small values that its processes share, such as addresses and keys.

#include <chrono>
#include <string>

#include "runtime/error.h"

namespace troupe {

/// A map from keys to bytes that all processes of a job share. Thread-safe.
///
/// Values are small (addresses, not tensors). A key can be put again, and later reads return the
/// later value. Keys that must not return values of an earlier world contain its generation.
class Store {
 public:
  virtual ~Store() = default;

  /// Returns when every later get of any process will find the value. Error{peer_lost} if the store
  /// is lost.
  virtual Status put(const std::string& key, std::string value) = 0;

  /// Waits until a process has put the key. Error{timed_out} names the key; with a zero timeout it
  /// does not wait. Error{peer_lost} at once if the store is lost.
  virtual Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) = 0;

  /// For work that one process does for all. The first process that claims a key gets an empty
  /// value, on each of its claims, and must put the (non-empty) value. The others wait for that
  /// value. If the first process leaves or is lost before it puts the value, the next process gets
  /// the empty value. The loss of any other process does not end the wait. Other errors as for get.
  virtual Result<std::string> claim(const std::string& key, std::chrono::milliseconds timeout) = 0;
};

}  // namespace troupe
