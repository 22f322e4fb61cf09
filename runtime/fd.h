#pragma once
// A file descriptor as an owned resource.

#include <unistd.h>

#include <utility>

namespace troupe {

/// Owns a file descriptor; the destructor closes it.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int number) : number_(number) {}
  Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    reset(std::exchange(other.number_, -1));
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

  /// Closes the present descriptor and owns `number` instead.
  void reset(int number = -1) {
    const int old = std::exchange(number_, number);
    if (old >= 0) ::close(old);
  }

 private:
  int number_ = -1;
};

/// Owns the descriptor that a system call has just returned. Throws Error{io} if it returned -1.
Fd new_descriptor(int number);

}  // namespace troupe
