// `troupe options` and docs/options.md, from the table.
#include <fmt/format.h>

#include <algorithm>

#include "apps/options/options_table.h"

namespace troupe {
namespace {

std::string_view section_of(const OptionField& field) {
  const std::size_t dot = field.path.find('.');
  return dot == std::string::npos ? std::string_view()
                                  : std::string_view(field.path).substr(0, dot);
}

constexpr std::size_t widest_line = 100;

/// Lines of at most `width` characters, wrapped between words.
std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  for (auto end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    for (std::string& line : wrapped(text.substr(0, end), width)) lines.push_back(std::move(line));
    text.remove_prefix(end + 1);
  }
  while (text.size() > width) {
    const std::size_t blank = text.rfind(' ', width);
    if (blank == std::string_view::npos || blank == 0) break;
    lines.emplace_back(text.substr(0, blank));
    text.remove_prefix(blank + 1);
  }
  lines.emplace_back(text);
  return lines;
}

/// Escapes bars and line ends, which would end the cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string result;
  for (const char c : text)
    result += c == '|' ? std::string("\\|") : c == '\n' ? std::string("<br>") : std::string(1, c);
  return result;
}

constexpr std::string_view page_head = R"(# Options

Made by `troupe options --markdown`; a test compares this page with the program.

An options file is YAML. The command line can override each key:
`troupe train options.yaml -r train.lr=0.05 -r 'model.widths=[16, 16, 32, 64]'`. Values are checked
before a run creates its folder; the error for a wrong value names the value, its position and a
remedy. `options_restart.yaml` in the output folder holds all options of a run with their values. A
resumption with other options keeps the earlier file as `options_restart-1.yaml`, then `-2`.
)";

}  // namespace

std::string options_listing(const Definitions& own, std::string_view key) {
  Options defaults(own);
  OptionFields fields = option_fields(defaults);
  std::erase_if(fields, [&](const OptionField& field) {
    return !key.empty() && field.path != key && section_of(field) != key;
  });
  if (fields.empty()) return {};
  std::size_t path_width = 0, value_width = 0;
  for (const auto& field : fields) {
    path_width = std::max(path_width, field.path.size());
    value_width = std::max(value_width, field.write().size());
  }
  std::string text =
      fmt::format("{:<{}}  {:<{}}  meaning\n", "key", path_width, "default", value_width);
  std::string_view section;
  for (const auto& field : fields) {
    if (section_of(field) != section && key.empty()) text += '\n';
    section = section_of(field);
    std::string left =
        fmt::format("{:<{}}  {:<{}}  ", field.path, path_width, field.write(), value_width);
    for (const std::string_view words :
         {std::string_view(field.help), std::string_view(field.type)})
      for (const std::string& line : wrapped(words, widest_line - left.size())) {
        text += left + line + "\n";
        left.assign(path_width + value_width + 4, ' ');
      }
  }
  return text;
}

std::string options_markdown(const Definitions& own) {
  Options defaults(own);
  const OptionFields fields = option_fields(defaults);
  std::string text(page_head);
  std::string_view section = "-";
  for (const auto& field : fields) {
    if (section_of(field) != section) {
      section = section_of(field);
      text += fmt::format("\n## {}\n\n| key | default | value | meaning |\n|---|---|---|---|\n",
                          section.empty()
                              ? (field.path == "faults" ? "For tests of recovery" : "Top level")
                              : fmt::format("`{}`", section));
    }
    text += fmt::format("| `{}` | `{}` | {} | {} |\n", field.path, cell(field.write()),
                        cell(field.type), cell(field.help));
  }
  return text;
}

}  // namespace troupe
