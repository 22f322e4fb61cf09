#pragma once

namespace troupe {

/// Whether the address or thread sanitizer is in this program, and so in what it starts.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif

}  // namespace troupe
