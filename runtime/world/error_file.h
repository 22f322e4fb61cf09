#pragma once
// The file in which a failing process reports the reason to its launcher, in torchrun's format:
// {"message": {"message": "...", "extraInfo": {"py_callstack": "...", "timestamp": "1700000000"}}}
// and, for processes of Troupe, "kind": "peer_lost" and "printed": true beside the timestamp.

#include <filesystem>
#include <optional>
#include <string>

#include "runtime/error.h"

namespace troupe {

/// The reason that a process gave for its own failure.
struct ReportedError {
  std::string message;    ///< one line
  std::string details;    ///< a call stack or remedy; may be empty
  std::int64_t time = 0;  ///< seconds since 1970; 0 if not given
  /// It failed only because another process was lost; the launcher reports that one.
  bool is_consequence = false;
  /// The process printed it to standard error as well, so the launcher need not repeat it.
  bool is_printed = false;
};

/// Writes the reason of this process's end for its launcher, if TORCHELASTIC_ERROR_FILE asks for
/// it. Never throws: an error of the file would hide the reason.
void report_to_launcher(const Error& error, bool is_printed);

/// Writes an error file atomically. Returns false if it cannot be written.
bool write_error_file(const std::filesystem::path& file, const ReportedError& reported);

/// The content of a process's file; empty if it is missing or damaged. Any program may have written
/// it: control characters are replaced and the length is bounded.
std::optional<ReportedError> read_error_file(const std::filesystem::path& file);

}  // namespace troupe
