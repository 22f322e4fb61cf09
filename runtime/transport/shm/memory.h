#pragma once
// Inside the shared-memory transport: descriptors and mapped memory with an owner.

#include <cstddef>
#include <memory>

#include "runtime/fd.h"

namespace troupe::transport {

/// Memory that processes share: an anonymous file (memfd), which goes with its last user, however
/// that one ends, and whose size is sealed, so that no access beyond its end can be provoked.
class SharedMemory {
 public:
  /// New, zeroed memory that is really there; throws Error{io} where the system has none.
  static std::shared_ptr<SharedMemory> create(std::size_t bytes);
  /// A peer's. Throws Error{io} unless it is sealed and has this size.
  static std::shared_ptr<SharedMemory> open(Fd fd, std::size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }

 private:
  SharedMemory(Fd fd, std::size_t bytes);

  Fd fd_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace troupe::transport
