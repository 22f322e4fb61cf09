#pragma once
#include <string>
#include <utility>

#include "runtime/error.h"

namespace troupe {

/// The Error{out_of_memory} of an allocator. Code that knows what the memory was for
/// replaces the remedy.
struct OutOfMemory : Error {
  OutOfMemory(std::string message, std::string remedy)
      : Error(ErrorCode::out_of_memory, std::move(message), std::move(remedy)) {}
};

}  // namespace troupe
