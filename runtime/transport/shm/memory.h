#pragma once
// Inside the shared-memory transport: mapped memory.

#include <cstddef>
#include <memory>

#include "runtime/fd.h"

namespace troupe::transport {

/// Memory that processes share: an anonymous file (memfd). The system frees it when its last user
/// ends, even by a crash. Its size is sealed, so no peer can shrink it below a mapped page.
class SharedMemory {
 public:
  /// New, zeroed and reserved memory; throws Error{io} if the system has none.
  static std::shared_ptr<SharedMemory> create(std::size_t bytes);
  /// The memory of a peer. Throws Error{io} unless it is sealed and has this size.
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
