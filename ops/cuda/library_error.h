#pragma once
#include <string>
#include <string_view>

namespace troupe::cuda {

/// A call of cuDNN or cuBLASLt that failed, though the library supports what was asked for.
struct LibraryFailure {
  std::string_view library;    ///< "cuDNN"
  std::string_view operation;  ///< "run a convolution": it could not do so
  std::string reason;          ///< what the library answered
  bool out_of_memory = false;  ///< whether it answered so
};

/// Throws the error of the context if that is lost; OutOfMemory if the library reports it or hardly
/// any memory is free, which libraries also report as internal errors; else Error{unsupported}.
[[noreturn]] void throw_error(const LibraryFailure& failure);

/// Warns on stderr, once for each text in the life of the process.
void warn_once(const std::string& text);

}  // namespace troupe::cuda
