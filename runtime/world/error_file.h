#pragma once
// The file in which a failing process tells its launcher why, in torchrun's format:
// {"message": {"message": "...", "extraInfo": {"py_callstack": "...", "timestamp": "1700000000"}}}
// and, where Troupe knows that, "kind": "peer_lost" and "printed": true beside the timestamp.

#include <filesystem>
#include <optional>
#include <string>

#include "runtime/error.h"

namespace troupe {

/// What a process said of its own failure.
struct ToldError {
  std::string message;    ///< one line
  std::string details;    ///< a call stack or remedy; may be empty
  std::int64_t time = 0;  ///< seconds since 1970; 0 if it was not told
  /// Whether it failed only because another process was gone, which is then the one to report.
  bool is_consequence = false;
  /// Whether it was written to the standard error as well: who shows that need not repeat it.
  bool is_printed = false;
};

/// Tells the launcher of this process, if one asked for it (TORCHELASTIC_ERROR_FILE), why it ends.
/// Never throws: the error that is told matters more than that it could not be written.
void tell_launcher(const Error& error, bool is_printed);

/// Writes an error file, in one piece. False if it cannot be written.
bool write_error_file(const std::filesystem::path& file, const ToldError& told);

/// What is in the file of a process; nothing if there is none or it is damaged. Its texts come from
/// any program: control characters are replaced and the length is bounded.
std::optional<ToldError> read_error_file(const std::filesystem::path& file);

}  // namespace troupe
