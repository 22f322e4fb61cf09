#pragma once
// The text of manifest.json. Internal to checkpoint.h; a header of its own for tests and fuzzing.

#include <string>
#include <string_view>

#include "runtime/file/checkpoint.h"

namespace troupe {

inline constexpr const char* manifest_file = "manifest.json";

/// The text, which ends with its own checksum. Throws Error (internal) if the position is not JSON
/// or a string is not UTF-8.
std::string manifest_text(const Manifest& manifest);

/// Throws Error (bad_file), which names `origin`, if the text is damaged or of a format that this
/// version does not know. Shard names that lead out of the folder count as damage.
Manifest parse_manifest(std::string_view text, const std::string& origin);

}  // namespace troupe
