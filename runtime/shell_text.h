#pragma once
// Pieces of text of a shell script.

#include <string>
#include <string_view>

namespace troupe {

/// A word as a POSIX shell reads it, in single quotes if necessary.
std::string shell_word(std::string_view word);

/// A value, in double quotes if the shell would split it; variables are still expanded.
std::string shell_value(const std::string& value);

/// A line with its reason as a comment, which begins in the same column of every line.
std::string with_reason(const std::string& text, const std::string& why);

/// Without line breaks, for a comment.
std::string in_one_line(std::string text);

/// A comment, wrapped between words.
std::string comment(const std::string& sentence);

}  // namespace troupe
