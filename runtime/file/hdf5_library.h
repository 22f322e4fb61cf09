#pragma once
// What the readers of HDF5 share: libhdf5's lock, its identifiers and its errors.

#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

namespace troupe::hdf5 {

/// Held during each call of libhdf5: Debian's serial build is not thread-safe. It also keeps the
/// library silent and without plugins. A program that calls libhdf5 itself holds it as well.
std::unique_lock<std::mutex> library_lock();

/// Why the last call failed, in libhdf5's words; the lock is held.
std::string library_reason();

/// How errors of a file, or of an array in it, begin.
std::string title(const std::string& origin);

/// Throws Error{bad_file} that names the file or the array in it.
[[noreturn]] void fail(const std::string& origin, const std::string& what,
                       const std::string& remedy);

inline constexpr const char* damaged = "the file is damaged or truncated: write it again";

/// An identifier of libhdf5, closed by the function of its kind. The lock is held when it ends.
class Id {
 public:
  Id(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Id(Id&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Id& operator=(Id&&) = delete;
  ~Id() {
    if (id_ >= 0) close_(id_);
  }
  hid_t get() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

}  // namespace troupe::hdf5
