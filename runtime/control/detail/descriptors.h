#pragma once
// Sleeping on many descriptors at once.

#include <chrono>
#include <vector>

namespace troupe::control {

/// Those of which some may be ready to read. Waiting takes the same time however many there
/// are (epoll(7), level-triggered). One thread waits, any thread adds.
class Descriptors {
 public:
  Descriptors();  ///< throws Error{io}
  ~Descriptors();
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  /// `name` is the caller's for it. The descriptor is removed before it is closed.
  void add(int fd, int name);
  void remove(int fd);

  /// Names of those that are ready, within the time. Also returns when `to_write`, if it is a
  /// descriptor, can be written.
  std::vector<int>& wait(std::chrono::milliseconds time, int to_write = -1);

 private:
  int fd_;
  std::vector<int> ready_;
};

}  // namespace troupe::control
