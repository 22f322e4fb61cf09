#pragma once
// The keys that a document may have, as data: each field binds a dotted key to the variable that
// takes its value, with its limits and its help. Reading, unknown-key errors, the resolved file
// and the documentation are all made from one list of fields.

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/error.h"
#include "runtime/options/tree.h"

namespace troupe {

/// What another option must be for an option to have an effect.
struct OnlyWith {
  std::string_view key = {};  ///< of the other option; empty: it always has one
  std::vector<std::string_view> values = {};
};

/// What a value may be, and how it is explained.
struct FieldLimits {
  std::vector<std::string_view> choices = {};  ///< of a text, or of each text in a list
  double at_least = -1e300;
  double above = -1e300;  ///< exclusive
  double at_most = 1e300;
  double below = 1e300;  ///< exclusive
  /// What the empty list, or the number 0, is written as ("auto"); the limits do not hold for it.
  std::string_view empty_word = {};
  /// Other names that users may try; only for "did you mean".
  std::vector<std::string_view> synonyms = {};
  /// Names that users may try, each with the remedy for it.
  std::vector<std::pair<std::string_view, std::string_view>> hints = {};
  /// Values that users may try, each with the remedy for it: small letters and digits, without the
  /// Loss, LR and val_ of PyTorch's and Lightning's names.
  std::vector<std::pair<std::string_view, std::string_view>> value_hints = {};
  /// The remedy for a value that is none of the choices and resembles none.
  std::string_view instead = {};
  /// Keys that older documents have in its place: read as this one. Dotted; empty: none.
  std::string_view old_path = {};
  /// What the library's errors call it (runtime/setting_names.h); empty: the last part of the path.
  std::string_view setting = {};
  OnlyWith only_with = {};
};

namespace detail {
template <class E>
std::vector<std::string_view> choices_of(std::span<const std::pair<std::string_view, E>> names) {
  std::vector<std::string_view> choices;
  for (const auto& [name, value] : names) choices.push_back(name);
  return choices;
}
template <class E>
std::string name_of_choice(std::span<const std::pair<std::string_view, E>> names, E wanted) {
  for (const auto& [name, value] : names)
    if (value == wanted) return std::string(name);
  return {};
}
/// The value of a name that is among them.
template <class E>
E choice_of(std::span<const std::pair<std::string_view, E>> names, std::string_view wanted) {
  for (const auto& [name, value] : names)
    if (name == wanted) return value;
  return {};
}
}  // namespace detail

/// One key: how it is read from a document, written to one, and listed. The bound variable must
/// outlive the field.
struct OptionField {
  std::string path;  ///< dotted: "train.lr"
  std::string help;  ///< one line, without a full stop
  std::string type;  ///< "number > 0", "one of gpipe, 1f1b", "list of integers >= 1"
  std::vector<std::string_view> synonyms;
  std::vector<std::pair<std::string_view, std::string_view>> hints;  ///< as in FieldLimits
  std::string old_path;                                              ///< as in FieldLimits
  std::string setting;                                               ///< as in FieldLimits
  OnlyWith only_with;
  /// Sets the variable, or throws Error{bad_options} with the value, its position and the remedy.
  std::function<void(const OptionTree&)> read;
  /// The variable as YAML in one line.
  std::function<std::string()> write;
};

/// A value that has different forms in the program and in the document.
template <class T>
struct Converted {
  std::function<T()> get;
  std::function<void(T)> set;
};

/// The field of a value. T is bool, int, std::int64_t, std::uint64_t, double, std::string,
/// std::filesystem::path or std::chrono::seconds, or a vector of one of them.
template <class T>
OptionField field(std::string path, Converted<T> value, std::string help, FieldLimits limits = {});
template <class T>
OptionField field(std::string path, Converted<std::vector<T>> value, std::string help,
                  FieldLimits limits = {});

/// The field of a variable of such a type.
template <class T>
OptionField field(std::string path, T& variable, std::string help, FieldLimits limits = {}) {
  return field(std::move(path),
               Converted<T>{[&variable] { return variable; },
                            [&variable](T value) { variable = std::move(value); }},
               std::move(help), std::move(limits));
}

/// An unsigned variable, read as a signed number so that a negative value is an error. The limits
/// keep it within the type.
template <std::unsigned_integral U>
Converted<std::int64_t> as_signed(U& variable) {
  return {[&variable] { return static_cast<std::int64_t>(variable); },
          [&variable](std::int64_t value) { variable = static_cast<U>(value); }};
}
template <std::unsigned_integral U>
Converted<std::vector<std::int64_t>> as_signed(std::vector<U>& variable) {
  return {[&variable] { return std::vector<std::int64_t>(variable.begin(), variable.end()); },
          [&variable](const std::vector<std::int64_t>& values) {
            variable.assign(values.begin(), values.end());
          }};
}

/// A duration in milliseconds, as whole seconds in the document.
inline Converted<std::chrono::seconds> in_seconds(std::chrono::milliseconds& variable) {
  return {[&variable] { return std::chrono::floor<std::chrono::seconds>(variable); },
          [&variable](std::chrono::seconds value) { variable = value; }};
}

/// A number of bytes in MiB, at least one byte.
Converted<double> in_mebibytes(std::size_t& bytes);

/// The names of an enum's values.
template <class E>
using ChoiceNames = std::span<const std::pair<std::string_view, E>>;

/// The field of an enum by the names of its values, which are the choices.
template <class E>
OptionField choice_field(std::string path, E& variable, std::type_identity_t<ChoiceNames<E>> names,
                         std::string help, FieldLimits limits = {}) {
  limits.choices = detail::choices_of<E>(names);
  return field(
      std::move(path),
      Converted<std::string>{[&variable, names] { return detail::name_of_choice(names, variable); },
                             [&variable, names](const std::string& name) {
                               variable = detail::choice_of(names, name);
                             }},
      std::move(help), std::move(limits));
}

/// A list of them.
template <class E>
OptionField choice_field(std::string path, std::vector<E>& variable,
                         std::type_identity_t<ChoiceNames<E>> names, std::string help,
                         FieldLimits limits = {}) {
  limits.choices = detail::choices_of<E>(names);
  return field(std::move(path),
               Converted<std::vector<std::string>>{
                   [&variable, names] {
                     std::vector<std::string> texts;
                     texts.reserve(variable.size());
                     for (const E value : variable)
                       texts.push_back(detail::name_of_choice(names, value));
                     return texts;
                   },
                   [&variable, names](const std::vector<std::string>& texts) {
                     variable.clear();
                     for (const std::string& name : texts)
                       variable.push_back(detail::choice_of(names, name));
                   }},
               std::move(help), std::move(limits));
}

/// A field that only write_fields uses: its value as YAML is always `text`.
OptionField constant_field(std::string path, std::string text);

/// A list of maps: `describe` gives the fields of one item, with plain names as paths. A field
/// is not written if its `write` returns an empty text.
template <class Item>
OptionField list_field(const std::string& path, std::vector<Item>& variable, std::string help,
                       std::function<std::vector<OptionField>(Item&)> describe);

using OptionFields = std::vector<OptionField>;

/// The position of each value in its document, by path, for errors that are found later.
class OptionOrigins {
 public:
  void set(const std::string& path, std::string where) { where_[path] = std::move(where); }
  /// "options.yaml:3:7", "override -r …", or "default" for what no document set.
  std::string of(const std::string& path) const;

 private:
  std::map<std::string, std::string> where_;
};

/// An error of one key or value of a document.
struct OptionError : Error {
  OptionError(const Error& error, std::string position)
      : Error(error), where(std::move(position)) {}
  std::string where;  ///< OptionTree::where, with which the message begins
};

/// Sets every variable that the document names; one that has an effect only with another option
/// after that option. Throws OptionError for unknown keys, naming the known one that was probably
/// meant or those there are, for a key that stands beside its former name, and for values that a
/// field refuses.
OptionOrigins read_fields(const OptionTree& document, const OptionFields& fields);

/// All values as a YAML document in sections; read_fields of it gives the same values.
std::string write_fields(const OptionFields& fields);

/// Throws Error{bad_options} where a variable has a value that its field would not read.
void check_fields(const OptionFields& fields);

/// A text as a YAML scalar, in quotes where it needs them.
std::string yaml_text(std::string_view text);

namespace detail {
/// The items of a list. Throws Error{bad_options} if it is none.
const std::vector<OptionTree>& items_of(const OptionTree& tree, const std::string& path);
std::string type_of_items(const OptionFields& fields);
std::string write_item(const OptionFields& fields);
}  // namespace detail

template <class Item>
OptionField list_field(const std::string& path, std::vector<Item>& variable, std::string help,
                       std::function<std::vector<OptionField>(Item&)> describe) {
  Item example;
  OptionField result;
  result.path = path;
  result.setting = path;
  result.help = std::move(help);
  result.type = detail::type_of_items(describe(example));
  result.read = [path, &variable, describe](const OptionTree& tree) {
    std::vector<Item> items;
    for (const auto& entry : detail::items_of(tree, path)) {
      Item item;
      read_fields(entry, describe(item));
      items.push_back(std::move(item));
    }
    variable = std::move(items);
  };
  result.write = [&variable, describe] {
    std::string text;
    for (Item item : variable)
      text += (text.empty() ? "" : ", ") + detail::write_item(describe(item));
    return "[" + text + "]";
  };
  return result;
}

}  // namespace troupe
