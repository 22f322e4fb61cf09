#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "apps/options/options.h"
#include "runtime/options/field.h"

namespace troupe {

/// Reads an options file, applies "a.b=value" overrides in their order, and checks what can be
/// checked before a run creates something. `origins` receives where each value stands. Throws
/// Error{bad_options} with position and remedy.
Options load_options(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                     OptionOrigins* origins = nullptr);

/// The same for text that is not a file (a checkpoint's metadata); `source` names it in errors.
Options parse_options(std::string_view text, const std::string& source,
                      const std::vector<std::string>& overrides = {});

/// Checks values that must go together. Called by load_options.
void validate(const Options& options, const OptionOrigins& origins);

}  // namespace troupe
