#pragma once
#include <string>
#include <utility>

#include "runtime/error.h"

namespace troupe {

/// The Error{io} of an allocator for want of memory. Code that knows what the memory was for
/// replaces the remedy.
struct OutOfMemory : Error {
  OutOfMemory(std::string message, std::string remedy)
      : Error(ErrorCode::io, std::move(message), std::move(remedy)) {}
};

}  // namespace troupe
