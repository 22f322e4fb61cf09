#pragma once
// The library's errors in the words of the command.

#include <string>
#include <string_view>

#include "runtime/error.h"

namespace troupe {

/// What the command calls a setting that the library's errors name: the key of an options file
/// ("train.batch_size" for `batch_size`), or a flag of a verb ("--rdzv-id" for `rdzv_id`). Empty
/// for a setting that the command does not have.
std::string command_name_of(std::string_view setting);

/// The error with these names in place of the settings.
Error in_words_of_the_command(const Error& error);

/// The same for one line of text.
std::string in_words_of_the_command(std::string_view text);

}  // namespace troupe
