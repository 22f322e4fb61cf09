#pragma once
// The text of manifest.json. Internal to checkpoint.h; apart for tests and fuzzing.

#include <string>
#include <string_view>

#include "runtime/file/checkpoint.h"

namespace troupe {

inline constexpr const char* manifest_file = "manifest.json";

/// The text, ending with its own checksum. Throws Error (internal) where the position is not JSON
/// or a text is not UTF-8.
std::string manifest_text(const Manifest& manifest);

/// Throws Error (bad_file) that names `origin` where the text is damaged, or of a format that this
/// version does not know. Shard names that lead out of the folder are damage.
Manifest parse_manifest(std::string_view text, const std::string& origin);

}  // namespace troupe
