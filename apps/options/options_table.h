#pragma once
#include <string>
#include <string_view>

#include "apps/options/options.h"
#include "runtime/options/field.h"

namespace troupe {

/// The largest number of stages, replicas, threads, or micro-batches of a batch.
inline constexpr int largest_count = 4096;

/// Every key of an options file, bound to a member of `options`, in the order of the file. An
/// option is declared here and nowhere else: reading, `options_restart.yaml`, `troupe options`,
/// docs/options.md and the wording of the library's errors (apps/error_wording.h) derive from it.
OptionFields option_fields(Options& options);

/// The chosen optimizer with its parameter groups.
Optimizer optimizer_of(const Options& options);

/// The value of one key as YAML; empty for an unknown key.
std::string option_text(const Options& options, std::string_view path);

/// All options with their values as an options file.
std::string resolved_yaml(const Options& options);

/// The listing of `troupe options`: key, default, type and help, for a terminal. With `key`, that
/// of a key or of a section; empty if there is none.
std::string options_listing(const Definitions& own = {}, std::string_view key = {});

/// The same as a page of Markdown, which docs/options.md is.
std::string options_markdown(const Definitions& own = {});

}  // namespace troupe
