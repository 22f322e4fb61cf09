#include "runtime/setting_names.h"

namespace troupe {
namespace {

std::string replace_settings(std::string_view text, const SettingNames& names) {
  std::string result;
  while (true) {
    const auto open = text.find('`');
    const auto close = open == text.npos ? text.npos : text.find('`', open + 1);
    if (close == text.npos) return result.append(text);
    const std::string name = names(text.substr(open + 1, close - open - 1));
    result.append(text.substr(0, open));
    result.append(name.empty() ? text.substr(open, close - open + 1) : std::string_view(name));
    text.remove_prefix(close + 1);
  }
}

}  // namespace

Error with_setting_names(const Error& error, const SettingNames& names) {
  return {error.code(), replace_settings(error.message(), names),
          replace_settings(error.remedy(), names)};
}

}  // namespace troupe
