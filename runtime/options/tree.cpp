#include "runtime/options/tree.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/error.h"

namespace troupe {

const OptionTree* OptionTree::find(std::string_view key) const {
  auto found = std::find_if(entries.begin(), entries.end(),
                            [&](const Entry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &found->value;
}

OptionTree* OptionTree::find(std::string_view key) {
  return const_cast<OptionTree*>(std::as_const(*this).find(key));
}

namespace {

void merge(OptionTree& into, OptionTree value) {
  if (into.kind != OptionTree::Kind::map || value.kind != OptionTree::Kind::map) {
    into = std::move(value);
    return;
  }
  for (auto& entry : value.entries) {
    if (OptionTree* old = into.find(entry.key))
      merge(*old, std::move(entry.value));
    else
      into.entries.push_back(std::move(entry));
  }
}

/// "a.b" and a value become {a: {b: value}}.
OptionTree nest(std::string_view path, OptionTree value, const std::string& where) {
  const std::size_t dot = path.find('.');
  OptionTree inner = dot == std::string_view::npos
                         ? std::move(value)
                         : nest(path.substr(dot + 1), std::move(value), where);
  OptionTree outer;
  outer.kind = OptionTree::Kind::map;
  outer.where = where;
  outer.entries.push_back({std::string(path.substr(0, dot)), where, std::move(inner)});
  return outer;
}

bool is_dotted_name(std::string_view path) {
  return !path.empty() && path.front() != '.' && path.back() != '.' &&
         path.find("..") == std::string_view::npos &&
         std::count(path.begin(), path.end(), '.') < static_cast<long>(max_options_depth);
}

}  // namespace

void apply_override(OptionTree& root, std::string_view assignment, const std::string& where) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || !is_dotted_name(assignment.substr(0, equals)))
    throw Error(ErrorCode::bad_options, fmt::format("{}: not of the form KEY=VALUE", where),
                "write a key and its value, such as seed=1 or section.key=0.05");
  OptionTree value = parse_yaml(assignment.substr(equals + 1), where, true);
  if (root.kind == OptionTree::Kind::null) root.kind = OptionTree::Kind::map;
  if (root.kind != OptionTree::Kind::map) return;  // read_fields refuses such a document
  merge(root, nest(assignment.substr(0, equals), std::move(value), where));
}

}  // namespace troupe
