#pragma once
// Output for users, on streams that may be closed or full. A line that cannot be written is lost;
// the program and its exit code are not affected.

#include <errno.h>
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace troupe {

/// Writes a formatted text in one call. Lost text is no error; std::ferror(stream) reports it.
template <class... Values>
void print_to(std::FILE* stream, fmt::format_string<Values...> text, Values&&... values) {
  const std::string whole = fmt::format(text, std::forward<Values>(values)...);
  std::fwrite(whole.data(), 1, whole.size(), stream);
}

/// To standard output: results that the user requested.
template <class... Values>
void print_out(fmt::format_string<Values...> text, Values&&... values) {
  print_to(stdout, text, std::forward<Values>(values)...);
}

/// To standard error: errors, warnings and notes.
template <class... Values>
void print_error(fmt::format_string<Values...> text, Values&&... values) {
  print_to(stderr, text, std::forward<Values>(values)...);
}

/// The program as it was called, without its folder: what its messages begin with.
inline std::string_view program_name() { return program_invocation_short_name; }

/// A warning to standard error.
template <class... Values>
void print_warning(fmt::format_string<Values...> text, Values&&... values) {
  print_error("{}: warning: {}\n", program_name(),
              fmt::format(text, std::forward<Values>(values)...));
}

/// Opens /dev/null for those of the descriptors 0, 1 and 2 that the program was started without.
/// Otherwise the next opened file would get such a number, and messages would be written into it.
/// Call it before any file is opened.
void keep_standard_streams();

}  // namespace troupe
