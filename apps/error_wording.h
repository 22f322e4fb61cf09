#pragma once
// The library's errors in the words of the command.

#include <string>
#include <string_view>
#include <vector>

#include "apps/options/definitions.h"
#include "runtime/error.h"

namespace troupe {

/// What the command calls a setting that the library's errors name: the key of an options file
/// ("train.batch_size" for `batch_size`), or a flag of a verb ("--rdzv-id" for
/// `MemberOptions::run`), or the command that does it ("troupe fetch mnist -o data" for `fetch
/// mnist data`, "run ./dev build --cuda" for `build with CUDA`). Empty for a setting that the
/// command does not have. `own` definitions may bring settings.
std::string command_name_of(std::string_view setting, const Definitions& own = {});

/// The keys of the settings that an error names, in this order.
std::vector<std::string> keys_named_by(const Error& error, const Definitions& own = {});

/// The error with these names in place of the settings.
Error in_words_of_the_command(const Error& error, const Definitions& own = {});

/// The same for one line of text.
std::string in_words_of_the_command(std::string_view text, const Definitions& own = {});

}  // namespace troupe
