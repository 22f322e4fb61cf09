#pragma once
// Waiting for many descriptors.

#include <chrono>
#include <vector>

namespace troupe::control {

/// A set of descriptors to wait for. The cost of a wait does not depend on their number (epoll(7),
/// level-triggered). One thread waits, any thread adds.
class Descriptors {
 public:
  Descriptors();  ///< throws Error{io}
  ~Descriptors();
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  /// The caller chooses `name`, and must remove the descriptor before it closes it.
  void add(int fd, int name);
  void remove(int fd);

  /// Waits for at most `time`; returns the names of the descriptors that are ready to read. Also
  /// returns when `to_write`, unless negative, is ready to write.
  std::vector<int>& wait(std::chrono::milliseconds time, int to_write = -1);

 private:
  int fd_;
  std::vector<int> ready_;
};

}  // namespace troupe::control
