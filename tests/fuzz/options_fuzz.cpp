// An options document and an override: whatever the bytes, options or an Error.

#include <cstdint>
#include <string>
#include <string_view>

#include "apps/options/load_options.h"
#include "apps/options/options_table.h"
#include "runtime/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = text.find('\0');  // what follows the first zero byte is an override
  std::vector<std::string> overrides;
  if (end != std::string_view::npos) overrides.emplace_back(text.substr(end + 1));
  try {
    const troupe::Options options = troupe::parse_options(text.substr(0, end), "input", overrides);
    const std::string resolved = troupe::resolved_yaml(options);
    if (troupe::resolved_yaml(troupe::parse_options(resolved, "resolved")) != resolved)
      __builtin_trap();
  } catch (const troupe::Error&) {
  }
  return 0;
}
