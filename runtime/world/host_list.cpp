#include "runtime/world/host_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "runtime/error.h"

namespace troupe {
namespace {

constexpr std::size_t most_hosts = 65'536;

Error bad_list(std::string_view list, std::string_view what) {
  return {
      ErrorCode::usage,
      fmt::format("the host list {} cannot be read: {}", list.substr(0, 128), what),
      "host lists look like gpu[001-003,010],login1; `scontrol show hostnames LIST` expands one"};
}

/// The number that `digits` write; -1 if they are none or write one too large.
int whole(std::string_view digits) {
  int value = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool all = error == std::errc() && end == digits.data() + digits.size();
  return all && digits.front() != '-' ? value : -1;
}

/// The pieces of `text` between commas that stand outside brackets.
std::vector<std::string_view> split(std::string_view list, std::string_view text) {
  std::vector<std::string_view> pieces;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') ++depth;
    if (text[i] == ']') --depth;
    if (depth < 0 || depth > 1) throw bad_list(list, "its brackets do not match");
    if (text[i] != ',' || depth != 0) continue;
    pieces.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  if (depth != 0) throw bad_list(list, "its brackets do not match");
  pieces.push_back(text.substr(begin));
  return pieces;
}

/// 001-003 or 010, as the texts it stands for.
std::vector<std::string> expand_range(std::string_view list, std::string_view range) {
  const auto dash = range.find('-');
  const std::string_view first = range.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : range.substr(dash + 1);
  const int from = whole(first), to = whole(last);
  if (from < 0 || to < from)
    throw bad_list(list, fmt::format("{} is not a range of numbers", range.substr(0, 32)));
  if (static_cast<std::size_t>(to - from) >= most_hosts)
    throw bad_list(list, fmt::format("more than {} hosts", most_hosts));
  std::vector<std::string> texts;
  for (int i = from; i <= to; ++i) texts.push_back(fmt::format("{:0{}}", i, first.size()));
  return texts;
}

/// Every name with every text of the bracket behind it.
std::vector<std::string> append_each(std::string_view list, const std::vector<std::string>& names,
                                     std::string_view bracket) {
  std::vector<std::string> texts;
  for (const auto range : split(list, bracket)) {
    const auto more = expand_range(list, range);
    texts.insert(texts.end(), more.begin(), more.end());
    if (names.size() * texts.size() > most_hosts)
      throw bad_list(list, fmt::format("more than {} hosts", most_hosts));
  }
  std::vector<std::string> longer;
  longer.reserve(names.size() * texts.size());
  for (const auto& name : names)
    for (const auto& text : texts) longer.push_back(name + text);
  return longer;
}

std::vector<std::string> expand_name(std::string_view list, std::string_view pattern) {
  std::vector<std::string> names{""};
  while (!pattern.empty()) {
    const auto open = pattern.find('[');
    for (auto& name : names) name += pattern.substr(0, open);
    if (open == std::string_view::npos) break;
    const auto close = pattern.find(']', open);
    names = append_each(list, names, pattern.substr(open + 1, close - open - 1));
    pattern.remove_prefix(close + 1);
  }
  if (names.front().empty()) throw bad_list(list, "a name in it is empty");
  return names;
}

}  // namespace

std::vector<std::string> expand_host_list(std::string_view list) {
  constexpr std::string_view blanks = " \t\r\n";
  if (list.find_first_of(blanks) != std::string_view::npos || list.find('\0') != list.npos)
    throw bad_list(list, "it holds blanks");
  std::vector<std::string> hosts;
  for (const auto pattern : split(list, list)) {
    const auto names = expand_name(list, pattern);
    hosts.insert(hosts.end(), names.begin(), names.end());
    if (hosts.size() > most_hosts)
      throw bad_list(list, fmt::format("more than {} hosts", most_hosts));
  }
  return hosts;
}

std::vector<int> expand_task_counts(std::string_view counts) {
  const Error bad(ErrorCode::usage,
                  fmt::format("the task counts {} cannot be read", counts.substr(0, 128)),
                  "Slurm writes them like 2(x3),1: two on each of three nodes, then one");
  std::vector<int> tasks;
  for (auto piece : split(counts, counts)) {
    int times = 1;
    if (const auto open = piece.find("(x"); open != std::string_view::npos) {
      if (piece.back() != ')' || piece.size() < open + 4) throw bad;
      times = whole(piece.substr(open + 2, piece.size() - open - 3));
      if (times < 1) throw bad;
      piece = piece.substr(0, open);
    }
    const int count = whole(piece);
    if (count < 1 || tasks.size() + static_cast<std::size_t>(times) > most_hosts) throw bad;
    tasks.insert(tasks.end(), static_cast<std::size_t>(times), count);
  }
  return tasks;
}

}  // namespace troupe
