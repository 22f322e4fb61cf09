#pragma once
// What differs between the options of two runs, and what that means for going on.

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

/// In the order of the options table; those of a section alone where `section` is given ("model").
/// Paths are of no account: a run may go on elsewhere.
std::vector<OptionChange> option_changes(const Options& before, const Options& now,
                                         std::string_view section = {});

/// Of a run that goes on with the resolved options `before`: "train.lr 0.3 → 0.01, …"; empty where
/// nothing has changed or `before` cannot be read.
std::string changes_since(const std::string& before, const Options& now);

/// The first option in which two resolved texts (resolved_yaml) differ; `before` is that of the
/// first. Paths count too. The key is empty where they are the same.
OptionChange first_option_difference(std::string_view one, std::string_view other);

/// Whether a run in this output folder trained the same model on the same samples from the same
/// seed, so that `options` may go on with it.
bool is_of_this_run(const std::filesystem::path& folder, const Options& options);

/// What is told where the weights of `path` do not fit the model: the file first, then the options
/// that differ from those it was written with, where it says them.
Error of_another_model(const Error& error, const std::filesystem::path& path,
                       const std::string& before, const Options& now);

}  // namespace troupe
