#pragma once
// The differences between the options of two runs, and their meaning for a resumed run.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "apps/options/options.h"
#include "runtime/error.h"

namespace troupe {

struct OptionChange {
  std::string key, before, now;
};

/// The changed options in the order of the options table, of one section if `section` is given
/// ("model"). Ignores paths, since a run may be resumed elsewhere.
std::vector<OptionChange> option_changes(const Options& before, const Options& now,
                                         std::string_view section = {});

/// "train.lr 0.3 → 0.01, …" since the resolved options `before`; empty if nothing has changed or
/// `before` cannot be read.
std::string changes_since(const std::string& before, const Options& now);

/// The first option in which two resolved texts (resolved_yaml) differ, paths included; `before` is
/// its value in `one`. The key is empty if the texts are equal.
OptionChange first_option_difference(std::string_view one, std::string_view other);

/// Whether the run in this output folder has the same model, samples and seed, so that a run with
/// `options` can resume it.
bool is_of_this_run(const std::filesystem::path& folder, const Options& options);

/// `section.key` in the resolved options that a run recorded; empty if they do not have it, or are
/// no options of the command.
std::string recorded_option(const std::string& options, std::string_view section,
                            std::string_view key);

/// Throws Error{bad_options} if the model is of a file with another graph than that of the run
/// which wrote `checkpoint` with the resolved options `before`. Names the file of that run.
void check_graph_of_run(const std::string& before, const std::filesystem::path& checkpoint,
                        const Options& now);

/// The error for weights of `path` that do not fit the model: names the file and the options that
/// differ from those it was written with, if it has them.
Error of_another_model(const Error& error, const std::filesystem::path& path,
                       const std::string& before, const Options& now);

}  // namespace troupe
