#pragma once
#include <cstddef>
#include <cstdint>

#include "clock.h"
#include "memory.h"
#include "shadow.h"

namespace cuda_on_cpu {

enum class Mode : std::uint8_t { read, write };

/// Compares accesses with earlier ones of the same memory: it reports a race if no barrier, stream
/// or event orders the two, in whichever order they ran. With the memory's lock.
class Checker {
 public:
  /// Accesses are those of this operation from now on.
  explicit Checker(const Operation& operation);

  /// `thread` says which thread of a kernel; nothing, of a copy or the host.
  void access(Region& region, const void* address, std::size_t bytes, Mode mode,
              const Access& thread = {});
  /// The host ends the life of the region.
  void free(Region& region);

 private:
  bool in_order(const Access& before, const Access& now) const;
  const char* fault_of_read(Place place, const Cell& cell, const Access& now, Access& before) const;
  const char* fault_of_write(const Cell& cell, const Access& now, Access& before) const;
  void remember_read(Cell& cell, const Access& now) const;
  void report_race(const char* what, const Region& region, const void* address,
                   const Access& before, const Access& now) const;

  const Operation& operation_;
  bool sees_all_;  ///< every access of a kernel, and so also each first write
};

/// Names an operation for reports: each is told once, when it begins.
void remember_name(const Operation& operation);

}  // namespace cuda_on_cpu
