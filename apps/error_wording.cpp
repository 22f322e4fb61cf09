#include "apps/error_wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "apps/options/options_table.h"
#include "runtime/print.h"
#include "runtime/setting_names.h"
#include "runtime/shell_text.h"

namespace troupe {
namespace {

/// Settings that no key of an options file sets, or that share a key with another.
constexpr std::pair<std::string_view, std::string_view> flags[] = {
    {"MemberOptions::coordinator", "--rdzv-endpoint"},
    {"MemberOptions::rank", "--node-rank"},
    {"MemberOptions::run", "--rdzv-id"},
    {"MemberOptions::size", "--nnodes"},
    {"Stream::products", "precision"},  // with PipelineOptions::dtype
};

std::string_view member_of(std::string_view setting) {
  const auto colons = setting.rfind("::");
  return colons == setting.npos ? setting : setting.substr(colons + 2);
}

/// "troupe fetch mnist -o data" for "fetch mnist data"; empty for other settings.
std::string fetch_command(std::string_view setting) {
  constexpr std::string_view verb = "fetch ";
  if (!setting.starts_with(verb)) return {};
  const std::string_view rest = setting.substr(verb.size());
  const auto space = std::min(rest.find(' '), rest.size());
  std::string command = fmt::format("{} {}{}", program_name(), verb, rest.substr(0, space));
  if (space < rest.size()) command += " -o " + shell_word(rest.substr(space + 1));
  return command;
}

/// "run ./dev build --cuda=12" for "build with CUDA 12"; empty for other settings.
std::string build_command(std::string_view setting) {
  constexpr std::string_view what = "build with CUDA";
  if (!setting.starts_with(what)) return {};
  std::string_view version = setting.substr(what.size());
  if (version.empty()) return "run ./dev build --cuda";
  version.remove_prefix(1);
  return fmt::format("run ./dev build --cuda={}", version);
}

}  // namespace

std::string command_name_of(std::string_view setting, const Definitions& own) {
  if (std::string command = build_command(setting); !command.empty()) return command;
  if (std::string command = fetch_command(setting); !command.empty()) return command;
  for (const auto& [name, flag] : flags)
    if (name == setting) return std::string(flag);
  Options options(own);
  const OptionFields fields = option_fields(options);
  const auto exact = std::ranges::find(fields, setting, &OptionField::setting);
  if (exact != fields.end()) return exact->path;
  // One of the two is qualified: `Model::widths` for "widths", `within` for
  // "RestartBudget::within". A member of several structs has to be named with its own.
  const auto fits = [&](const OptionField& field) {
    return member_of(field.setting) == member_of(setting) &&
           (field.setting.find("::") == std::string::npos || setting == member_of(setting));
  };
  const auto first = std::ranges::find_if(fields, fits);
  const bool is_one = std::ranges::count_if(fields, fits) == 1;
  return is_one ? first->path : "";
}

std::vector<std::string> keys_named_by(const Error& error, const Definitions& own) {
  std::vector<std::string> keys;
  (void)with_setting_names(error, [&](std::string_view setting) {
    return keys.emplace_back(command_name_of(setting, own));
  });
  return keys;
}

Error in_words_of_the_command(const Error& error, const Definitions& own) {
  return with_setting_names(
      error, [&](std::string_view setting) { return command_name_of(setting, own); });
}

std::string in_words_of_the_command(std::string_view text, const Definitions& own) {
  return in_words_of_the_command(Error(ErrorCode::internal, std::string(text)), own).message();
}

}  // namespace troupe
