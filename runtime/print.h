#pragma once
// Lines for people, on streams that may be closed, full or gone: such a stream costs its reader the
// line, never the program its run or its exit code.

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace troupe {

/// Writes a formatted text in one piece. Never fails: std::ferror(stream) tells of lost text.
template <class... Values>
void print_to(std::FILE* stream, fmt::format_string<Values...> text, Values&&... values) {
  const std::string whole = fmt::format(text, std::forward<Values>(values)...);
  std::fwrite(whole.data(), 1, whole.size(), stream);
}

/// To standard output, where what a user asked for goes.
template <class... Values>
void print_out(fmt::format_string<Values...> text, Values&&... values) {
  print_to(stdout, text, std::forward<Values>(values)...);
}

/// To standard error, where errors, warnings and notes go.
template <class... Values>
void print_error(fmt::format_string<Values...> text, Values&&... values) {
  print_to(stderr, text, std::forward<Values>(values)...);
}

/// Gives those of the descriptors 0, 1 and 2 that a program was started without to /dev/null, in
/// the direction that nobody uses: otherwise the next file that is opened would take their place,
/// and messages would be written into it. Call it before anything is opened.
void keep_standard_streams();

}  // namespace troupe
