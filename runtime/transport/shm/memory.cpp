#include "runtime/transport/shm/memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/error.h"

namespace troupe::transport {
namespace {

constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW;

[[noreturn]] void refuse(const char* what, std::size_t bytes, int error) {
  throw Error(ErrorCode::io,
              fmt::format("shm: {} of {} bytes: {}", what, bytes, std::strerror(error)),
              error == EMFILE || error == ENFILE
                  ? "raise the number of open files (ulimit -n)"
                  : "check the memory limit of the job or container, or set `transport` to gloo");
}

}  // namespace

std::shared_ptr<SharedMemory> SharedMemory::create(std::size_t bytes) {
  Fd fd(::memfd_create("troupe", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) refuse("creating shared memory", bytes, errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    refuse("sizing shared memory", bytes, errno);
  // Reserved now: a missing page would later end the process with SIGBUS.
  int error = 0;
  do error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
  while (error == EINTR);
  if (error != 0) refuse("reserving shared memory", bytes, error);
  if (::fcntl(fd.get(), F_ADD_SEALS, size_seals | F_SEAL_SEAL) != 0)
    refuse("sealing shared memory", bytes, errno);
  return std::shared_ptr<SharedMemory>(new SharedMemory(std::move(fd), bytes));
}

std::shared_ptr<SharedMemory> SharedMemory::open(Fd fd, std::size_t bytes) {
  struct stat status {};
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & size_seals) != size_seals || ::fstat(fd.get(), &status) != 0 ||
      static_cast<std::size_t>(status.st_size) != bytes)
    throw Error(ErrorCode::io,
                fmt::format("shm: a peer's memory has seals {:#x} and {} bytes, not {}", seals,
                            status.st_size, bytes));
  return std::shared_ptr<SharedMemory>(new SharedMemory(std::move(fd), bytes));
}

SharedMemory::SharedMemory(Fd fd, std::size_t bytes) : fd_(std::move(fd)), bytes_(bytes) {
  // MAP_POPULATE: entering all pages at once costs less than thousands of faults.
  void* data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_.get(), 0);
  if (data == MAP_FAILED) refuse("mapping shared memory", bytes, errno);
  data_ = static_cast<std::byte*>(data);
}

SharedMemory::~SharedMemory() { ::munmap(data_, bytes_); }

}  // namespace troupe::transport
