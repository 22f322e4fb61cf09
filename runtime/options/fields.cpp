// What is made from a list of fields: reading a document, writing one, unknown keys.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <tuple>

#include "runtime/error.h"
#include "runtime/options/field.h"
#include "runtime/text.h"

namespace troupe {
namespace {

std::string_view last_name(std::string_view path) { return path.substr(path.rfind('.') + 1); }

std::string_view section_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

/// "model has name, widths, dropout"; where there is no section, the keys and sections there are.
std::string known_keys(std::string_view section, const OptionFields& fields) {
  std::vector<std::string> keys;
  for (const auto& field : fields) {
    const std::string_view own = section_of(field.path);
    const std::string_view key = section.empty() && !own.empty() ? own : last_name(field.path);
    if ((section.empty() || own == section) && std::ranges::count(keys, key) == 0)
      keys.emplace_back(key);
  }
  const std::string list = listed(keys, keys.size());
  return section.empty() ? "the keys are " + list : fmt::format("{} has {}", section, list);
}

/// What to do about an unknown name.
struct Suggestion {
  std::string remedy;
  std::string meant = {};  ///< the known path or section that probably is; empty: none is near
};

Suggestion asking_for(std::string_view meant) {
  return {fmt::format("did you mean {}?", meant), std::string(meant)};
}

/// For a name that a field has, or that it knows as another name of it; empty: none has.
Suggestion suggestion_for_name(std::string_view name, const OptionFields& fields) {
  for (const auto& field : fields)
    for (const auto& [word, remedy] : field.hints)
      if (word == name) return {std::string(remedy)};
  for (const auto& field : fields)
    if (last_name(field.path) == name || std::ranges::count(field.synonyms, name) > 0)
      return asking_for(field.path);
  return {};
}

/// Names the known path or section nearest to `path`, or all of them.
Suggestion suggestion_for(std::string path, const OptionFields& fields) {
  std::ranges::replace(path, '-', '_');  // flags of scripts
  const std::string_view name = last_name(path), section = section_of(path);
  if (Suggestion known = suggestion_for_name(name, fields); !known.remedy.empty()) return known;
  std::vector<std::string_view> names, paths;  // what is compared, and what is then suggested
  const auto add = [&](std::string_view text, std::string_view suggestion) {
    names.push_back(text);
    paths.push_back(suggestion);
  };
  for (const auto& field : fields) {
    // Keys of the same section are compared by name; without a section, those of all sections are.
    if (section_of(field.path) == section || section.empty())
      add(last_name(field.path), field.path);
    if (section.empty() && !section_of(field.path).empty())
      add(section_of(field.path), section_of(field.path));
  }
  const bool whole_paths = names.empty();  // the section itself is unknown
  if (whole_paths)
    for (const auto& field : fields) add(field.path, field.path);
  const std::string near = meant(whole_paths ? path : name, names);
  const auto found = std::find(names.begin(), names.end(), near);
  if (found == names.end()) return {known_keys(whole_paths ? "" : section, fields)};
  return asking_for(paths[static_cast<std::size_t>(found - names.begin())]);
}

class DocumentReader {
 public:
  explicit DocumentReader(const OptionFields& fields) : fields_(fields) {}

  OptionOrigins read(const OptionTree& root) {
    read_map(root, "");
    for (const auto& [field, value] : later_) read(*field, *value);
    return std::move(origins_);
  }

 private:
  [[noreturn]] static void refuse(const std::string& where, const std::string& what,
                                  const std::string& remedy) {
    throw OptionError({ErrorCode::bad_options, fmt::format("{}: {}", where, what), remedy}, where);
  }
  static void read(const OptionField& field, const OptionTree& value) {
    try {
      field.read(value);
    } catch (const Error& error) {
      throw OptionError(error, value.where);
    }
  }

  void read_map(const OptionTree& tree, const std::string& prefix) {
    if (tree.kind == OptionTree::Kind::null) return;
    if (tree.kind != OptionTree::Kind::map)
      refuse(tree.where,
             fmt::format("{} must be a map of keys to values",
                         prefix.empty() ? "the document" : prefix),
             prefix.empty() ? "write one key: value per line" : with_keys(prefix, tree));
    for (const auto& entry : tree.entries)
      read_entry(entry, prefix.empty() ? entry.key : prefix + "." + entry.key);
  }

  void read_entry(const OptionTree::Entry& entry, const std::string& path) {
    const auto field = std::find_if(fields_.begin(), fields_.end(), [&](const OptionField& f) {
      return f.path == path || f.old_path == path;
    });
    if (field != fields_.end()) {
      refuse_both_names(*field, path, entry.value.where);
      origins_.set(field->path, entry.value.where);
      if (field->only_with.key.empty())
        read(*field, entry.value);
      else
        later_.emplace_back(&*field, &entry.value);
    } else if (first_below(path)) {
      read_map(entry.value, path);
    } else {
      refuse_unknown(entry, path);
    }
  }

  /// Of a section that resembles none here, the first key may be known; so may a key that the
  /// section, had it the suggested name, lacks.
  [[noreturn]] void refuse_unknown(const OptionTree::Entry& entry, const std::string& path) const {
    const Suggestion whole = suggestion_for(path, fields_);
    std::string inner = path;
    const OptionTree* tree = &entry.value;
    for (; tree->kind == OptionTree::Kind::map && !tree->entries.empty();
         tree = &tree->entries.front().value)
      inner += "." + tree->entries.front().key;
    const Suggestion of_inner = suggestion_for(inner, fields_);
    const bool leads_there = std::ranges::any_of(fields_, [&](const OptionField& field) {
      return last_name(field.path) == last_name(inner) && !whole.meant.empty() &&
             whole.meant == section_of(field.path);
    });
    const bool is_known =
        !suggestion_for_name(last_name(inner), fields_).remedy.empty() && !leads_there;
    const bool takes_inner = is_known || (whole.meant.empty() && !of_inner.meant.empty());
    refuse(entry.where, fmt::format("unknown key {}", printable(takes_inner ? inner : path)),
           (takes_inner ? of_inner : whole).remedy);
  }

  /// Throws if the option has its value already: by its other name, since keys are unique.
  void refuse_both_names(const OptionField& field, const std::string& path,
                         const std::string& where) const {
    const std::string before = origins_.of(field.path);
    if (before == "default") return;
    const bool is_former = path == field.old_path;
    const auto& [here, there] = is_former ? std::tie(where, before) : std::tie(before, where);
    refuse(here,
           fmt::format("{} is the former name of {}, which is set too ({})", field.old_path,
                       field.path, there),
           "keep one of them");
  }

  /// The first field in a section, or empty where there is no such section.
  /// Null if there is none.
  const OptionField* first_below(const std::string& section) const {
    const auto found = std::ranges::find_if(
        fields_, [&](const OptionField& field) { return field.path.starts_with(section + "."); });
    return found == fields_.end() ? nullptr : &*found;
  }

  /// How to write the section, with the value for its first key if that key takes it: "mlp" in
  /// place of a map is the name of a model.
  std::string with_keys(const std::string& section, const OptionTree& value) const {
    const OptionField& first = *first_below(section);
    try {
      first.read(value);
    } catch (const Error&) {  // what it has is the example
    }
    return fmt::format("write its keys in braces, {}: {{{}: {}}}, or in an override {}={}", section,
                       first.path.substr(section.size() + 1), first.write(), first.path,
                       first.write());
  }

  const OptionFields& fields_;
  OptionOrigins origins_;
  std::vector<std::pair<const OptionField*, const OptionTree*>> later_;
};

}  // namespace

std::string OptionOrigins::of(const std::string& path) const {
  const auto found = where_.find(path);
  return found == where_.end() ? "default" : found->second;
}

OptionOrigins read_fields(const OptionTree& document, const OptionFields& fields) {
  return DocumentReader(fields).read(document);
}

OptionField constant_field(std::string path, std::string text) {
  OptionField field;
  field.path = std::move(path);
  field.write = [text = std::move(text)] { return text; };
  return field;
}

void check_fields(const OptionFields& fields) {
  for (const OptionField& field : fields)
    field.read(parse_yaml(field.write(), "options of the program", true));
}

std::string write_fields(const OptionFields& fields) {
  std::string text;
  std::string_view section;
  for (const auto& field : fields) {
    const std::string_view own = section_of(field.path);
    if (own != section && !own.empty()) text += fmt::format("{}:\n", own);
    section = own;
    text +=
        fmt::format("{}{}: {}\n", own.empty() ? "" : "  ", last_name(field.path), field.write());
  }
  return text;
}

std::string yaml_text(std::string_view text) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '/' || c == '.' || c == '-' || c == '+';
  };
  const bool safe = !text.empty() && std::all_of(text.begin(), text.end(), plain) &&
                    (std::isalnum(static_cast<unsigned char>(text[0])) != 0 || text[0] == '/');
  if (safe && text != "null" && text != "Null" && text != "NULL") return std::string(text);
  std::string quoted = "\"";
  for (const unsigned char c : text) {
    if (c == '"' || c == '\\')
      quoted += fmt::format("\\{:c}", c);
    else if (is_control(c))
      quoted += fmt::format("\\x{:02x}", c);
    else
      quoted += static_cast<char>(c);
  }
  return quoted + '"';
}

namespace detail {

const std::vector<OptionTree>& items_of(const OptionTree& tree, const std::string& path) {
  if (tree.kind != OptionTree::Kind::list)
    throw Error(ErrorCode::bad_options, fmt::format("{}: {} must be a list", tree.where, path),
                tree.kind == OptionTree::Kind::map
                    ? "put the map in brackets: [{...}]"
                    : fmt::format("write {}: [], or one item per line after a dash", path));
  return tree.items;
}

std::string type_of_items(const OptionFields& fields) {
  std::string names;
  for (const auto& field : fields) names += (names.empty() ? "" : ", ") + field.path;
  return fmt::format("list of {{{}}}", names);
}

std::string write_item(const OptionFields& fields) {
  std::string text;
  for (const auto& field : fields)
    if (const std::string value = field.write(); !value.empty())
      text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", field.path, value);
  return "{" + text + "}";
}

}  // namespace detail
}  // namespace troupe
