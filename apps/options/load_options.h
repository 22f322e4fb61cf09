#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "apps/options/options.h"
#include "runtime/options/field.h"

namespace troupe {

/// Reads an options file, applies "a.b=value" overrides in their order, and checks what can be
/// checked before a run creates something. The file may also name `own` definitions. `origins`
/// receives where each value stands. Throws Error{bad_options} with position and remedy.
Options load_options(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                     const Definitions& own = {}, OptionOrigins* origins = nullptr);

/// The same for text that is not a file (a checkpoint's metadata); `source` names it in errors.
Options parse_options(std::string_view text, const std::string& source,
                      const std::vector<std::string>& overrides = {}, const Definitions& own = {});

/// The same for the options that a checkpoint or an output folder keeps. The remedy for a key or
/// value in them that this program does not know is the program that wrote them.
Options parse_recorded_options(std::string_view text, const std::string& source,
                               const std::vector<std::string>& overrides, const Definitions& own);

/// The options of an earlier run, from the text that its checkpoint or output folder keeps. Its
/// files may be elsewhere now: the data set is not opened, there are no weights to start from, and
/// model.file is that of `now`.
Options parse_past_options(std::string_view text, const std::string& source, const Options& now);

/// More classes than this are likely to be numbers: neither are there as many training samples, nor
/// has a usual data set so many.
std::int64_t most_plausible_classes(const DatasetSummary& data);

/// Checks values that must go together, and with the samples of the data set. Called by
/// load_options.
void validate(const Options& options, const OptionOrigins& origins);

}  // namespace troupe
