#include "runtime/options/field.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>

#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe {
namespace {

std::string_view name_of(OptionTree::Kind kind) {
  switch (kind) {
    case OptionTree::Kind::null:
      return "empty";
    case OptionTree::Kind::scalar:
      return "a single value";
    case OptionTree::Kind::list:
      return "a list";
    case OptionTree::Kind::map:
      return "a map";
  }
  return "";
}

/// A value as messages quote it: on one line, cut if it is long.
std::string shown(const OptionTree& tree) {
  if (tree.kind != OptionTree::Kind::scalar) return std::string(name_of(tree.kind));
  const std::string text = printable(tree.scalar, 60) + (tree.scalar.size() > 60 ? "..." : "");
  return tree.quoted || text.empty() ? '"' + text + '"' : text;
}

/// What one value of type T is called, and how text becomes it.
template <class T>
struct Scalar;

template <class T>
std::optional<T> number(const std::string& text) {
  T value{};
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// 010 is eight to readers of YAML 1.1 and ten to those of YAML 1.2: not read at all.
bool has_leading_zero(std::string_view text) {
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0';
}

template <class T>
struct WholeNumber {
  static constexpr std::string_view name = "integer", names = "integers", example = "4";
  static std::optional<T> parse(const OptionTree& tree) {
    return tree.quoted || has_leading_zero(tree.scalar) ? std::nullopt : number<T>(tree.scalar);
  }
  static std::string write(T value) { return fmt::format("{}", value); }
};
template <>
struct Scalar<int> : WholeNumber<int> {};
template <>
struct Scalar<std::int64_t> : WholeNumber<std::int64_t> {};
template <>
struct Scalar<std::uint64_t> : WholeNumber<std::uint64_t> {
  static constexpr std::string_view name = "integer from 0 to 2^64 - 1";
};

template <>
struct Scalar<std::chrono::seconds> {
  static constexpr std::string_view name = "time such as 90, 90s, 5min or 1h", names = "times",
                                    example = "60s";
  static std::optional<std::chrono::seconds> parse(const OptionTree& tree) {
    const std::size_t digits =
        std::min(tree.scalar.find_first_not_of("0123456789"), tree.scalar.size());
    const auto count = number<std::int64_t>(tree.scalar.substr(0, digits));
    const std::string_view unit = std::string_view(tree.scalar).substr(digits);
    if (!count || *count > INT32_MAX) return std::nullopt;
    if (unit.empty() || unit == "s") return std::chrono::seconds(*count);
    if (unit == "min" || unit == "m") return std::chrono::minutes(*count);
    if (unit == "h") return std::chrono::hours(*count);
    return std::nullopt;
  }
  static std::string write(std::chrono::seconds value) { return fmt::format("{}s", value.count()); }
};

template <>
struct Scalar<double> {
  static constexpr std::string_view name = "number", names = "numbers", example = "0.1";
  static std::optional<double> parse(const OptionTree& tree) {
    const auto value = tree.quoted ? std::nullopt : number<double>(tree.scalar);
    return value && std::isfinite(*value) ? value : std::nullopt;
  }
  static std::string write(double value) { return fmt::format("{}", value); }
};

template <>
struct Scalar<bool> {
  static constexpr std::string_view name = "true or false", names = name, example = "true";
  static std::optional<bool> parse(const OptionTree& tree) {
    if (tree.quoted) return std::nullopt;
    if (tree.scalar == "true" || tree.scalar == "True") return true;
    if (tree.scalar == "false" || tree.scalar == "False") return false;
    return std::nullopt;
  }
  static std::string write(bool value) { return value ? "true" : "false"; }
};

template <>
struct Scalar<std::string> {
  static constexpr std::string_view name = "text", names = "names", example = "a name";
  static std::optional<std::string> parse(const OptionTree& tree) { return tree.scalar; }
  static std::string write(const std::string& value) { return yaml_text(value); }
};

template <>
struct Scalar<std::filesystem::path> {
  static constexpr std::string_view name = "path", names = "paths", example = "a/file";
  static std::optional<std::filesystem::path> parse(const OptionTree& tree) {
    return std::filesystem::path(tree.scalar);
  }
  static std::string write(const std::filesystem::path& value) { return yaml_text(value.string()); }
};

double as_number(std::chrono::seconds value) { return static_cast<double>(value.count()); }
template <class T>
requires std::is_arithmetic_v<T>
double as_number(T value) { return static_cast<double>(value); }

/// "integer from 1 to 4", "number > 0, <= 1", "one of gpipe, 1f1b".
template <class T>
std::string type_text(const FieldLimits& limits, bool plural) {
  if (!limits.choices.empty())
    return fmt::format("{} {}", plural ? "any of" : "one of", fmt::join(limits.choices, ", "));
  const FieldLimits none;
  std::string text(plural ? Scalar<T>::names : Scalar<T>::name);
  if (limits.at_least > none.at_least && limits.at_most < none.at_most)
    return fmt::format("{} from {} to {}", text, limits.at_least, limits.at_most);
  std::vector<std::string> bounds;
  if (limits.at_least > none.at_least) bounds.push_back(fmt::format(">= {}", limits.at_least));
  if (limits.above > none.above) bounds.push_back(fmt::format("> {}", limits.above));
  if (limits.at_most < none.at_most) bounds.push_back(fmt::format("<= {}", limits.at_most));
  if (limits.below < none.below) bounds.push_back(fmt::format("< {}", limits.below));
  return bounds.empty() ? text : fmt::format("{} {}", text, fmt::join(bounds, ", "));
}

/// The same in a sentence: "an integer from 1 to 4".
std::string with_article(const std::string& type) {
  for (const std::string_view noun : {"number", "text", "path", "time"})
    if (type.starts_with(noun)) return "a " + type;
  return type.starts_with("integer") ? "an " + type : type;
}

template <class T>
bool within(const T& value, const FieldLimits& limits) {
  if constexpr (std::is_same_v<T, std::string>) {
    return limits.choices.empty() ||
           std::find(limits.choices.begin(), limits.choices.end(), value) != limits.choices.end();
  } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
    return true;
  } else {
    const double x = as_number(value);
    return x >= limits.at_least && x <= limits.at_most && x > limits.above && x < limits.below;
  }
}

/// Small letters and digits, without what PyTorch's classes end with and Lightning's scores begin
/// with: "crossentropy" of CrossEntropyLoss, "loss" of val_loss.
std::string bare(std::string_view word) {
  for (const std::string_view ending : {"AnnealingLR", "LR", "Loss"})
    if (word.size() > ending.size() && word.ends_with(ending)) word.remove_suffix(ending.size());
  for (const std::string_view beginning : {"val_", "valid_", "test_"})
    if (word.starts_with(beginning)) word.remove_prefix(beginning.size());
  std::string letters;
  for (const unsigned char c : word)
    if (std::isalnum(c) != 0) letters += static_cast<char>(std::tolower(c));
  return letters;
}

/// "did you mean cosine?" for CosineAnnealingLR.
std::string question_without_endings(std::string_view word,
                                     std::span<const std::string_view> choices) {
  const std::string wanted = bare(word);
  for (const std::string_view choice : choices)
    if (const std::string own = bare(choice);
        own == wanted || (own.size() > 3 && wanted.find(own) != wanted.npos))
      return fmt::format("did you mean {}?", choice);
  return {};
}

std::string without_digits(std::string_view word) {
  std::string rest(word);
  std::erase_if(rest, [](unsigned char c) { return std::isdigit(c) != 0; });
  return rest;
}

/// The choices that differ from a word in numbers alone: "resnet18, resnet34" for resnet101.
std::vector<std::string_view> other_sizes(std::string_view word, const FieldLimits& limits) {
  const std::string stem = without_digits(word);
  std::vector<std::string_view> sizes;
  if (stem.size() == word.size()) return sizes;
  for (const std::string_view choice : limits.choices)
    if (stem.size() < choice.size() && without_digits(choice) == stem) sizes.push_back(choice);
  return sizes;
}

/// Empty if nothing is better than the choices, which the message lists.
std::string remedy_for_choice(const std::string& word, const FieldLimits& limits) {
  for (const auto& [value, remedy] : limits.value_hints)
    if (bare(word) == value) return std::string(remedy);
  if (const auto sizes = other_sizes(word, limits); !sizes.empty())
    return fmt::format("there are {}{}{}", fmt::join(sizes, ", "),
                       limits.instead.empty() ? "" : "; for others, ", limits.instead);
  std::string question = did_you_mean(word, limits.choices);
  if (question.empty()) question = question_without_endings(word, limits.choices);
  return question.empty() && !word.empty() ? std::string(limits.instead) : question;
}

template <class T>
std::string remedy(const OptionTree& tree, const FieldLimits& limits, bool in_list) {
  if (!limits.choices.empty()) return remedy_for_choice(tree.scalar, limits);
  if (tree.quoted && Scalar<T>::parse(OptionTree{OptionTree::Kind::scalar, {}, tree.scalar}))
    return "remove the quotes";
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    if (const auto decimal = number<T>(tree.scalar); decimal && has_leading_zero(tree.scalar))
      return fmt::format("write {}: some YAML parsers read a number with a leading zero as octal",
                         *decimal);
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    if (const auto real = number<double>(tree.scalar);
        real && std::trunc(*real) == *real && std::abs(*real) < 1e15)
      if (const auto whole = number<T>(fmt::format("{:.0f}", *real));
          whole && within(*whole, limits))
        return fmt::format("write {}", *whole);
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    if (const auto real = number<double>(tree.scalar); real && std::isfinite(*real)) {
      const std::string word =
          limits.empty_word.empty() || in_list ? "" : fmt::format("{}, or ", limits.empty_word);
      const double least = std::is_unsigned_v<T> ? std::max(limits.at_least, 0.0) : limits.at_least;
      if (*real < least) return fmt::format("write {}{} or more", word, least);
      if (std::trunc(*real) != *real) return fmt::format("write {}a whole number", word);
    }
  if (!limits.empty_word.empty() && in_list)
    return fmt::format("write {} or a list such as [{}]", limits.empty_word, Scalar<T>::example);
  if constexpr (std::is_same_v<T, bool>) return "write true or false";
  return fmt::format("write {}a value such as {}",
                     limits.empty_word.empty() ? "" : fmt::format("{}, or ", limits.empty_word),
                     Scalar<T>::example);
}

/// The bound that a value has crossed: "write 1000000 or less".
template <class T>
std::string crossed(const T& value, const FieldLimits& limits) {
  if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::filesystem::path>) {
    return {};
  } else {
    const double x = as_number(value);
    if (x < limits.at_least) return fmt::format("write {} or more", limits.at_least);
    if (x > limits.at_most) return fmt::format("write {} or less", limits.at_most);
    if (x <= limits.above) return fmt::format("write more than {}", limits.above);
    return fmt::format("write less than {}", limits.below);
  }
}

template <class T>
T read_scalar(const OptionTree& tree, const std::string& path, const FieldLimits& limits,
              bool in_list) {
  std::optional<T> value;
  if (tree.kind == OptionTree::Kind::scalar) value = Scalar<T>::parse(tree);
  if (value && within(*value, limits)) return *value;
  const std::string type = type_text<T>(limits, false);
  const std::string wanted = limits.empty_word.empty() || in_list
                                 ? with_article(type)
                                 : fmt::format("{} or {}", limits.empty_word, type);
  throw Error(
      ErrorCode::bad_options,
      fmt::format("{}: {}{} is {}; it must be {}", tree.where, in_list ? "an item of " : "", path,
                  shown(tree), wanted),
      value && limits.choices.empty() ? crossed(*value, limits) : remedy<T>(tree, limits, in_list));
}

OptionField field_without_access(const std::string& path, std::string help, std::string type,
                                 const FieldLimits& limits) {
  return {.path = path,
          .help = std::move(help),
          .type = std::move(type),
          .synonyms = limits.synonyms,
          .hints = limits.hints,
          .old_path = std::string(limits.old_path),
          .setting = std::string(limits.setting.empty()
                                     ? std::string_view(path).substr(path.rfind('.') + 1)
                                     : limits.setting),
          .only_with = limits.only_with,
          .read = {},
          .write = {}};
}

std::size_t bytes_of(double mebibytes) {
  return std::max<std::size_t>(1, static_cast<std::size_t>(mebibytes * 0x1p20));
}

}  // namespace

Converted<double> in_mebibytes(std::size_t& bytes) {
  return {[&bytes] {
            // The shortest number that gives the same bytes.
            for (int digits = 1; digits < 17; ++digits)
              if (const auto shortest = number<double>(
                      fmt::format("{:.{}g}", static_cast<double>(bytes) / 0x1p20, digits));
                  bytes_of(*shortest) == bytes)
                return *shortest;
            return static_cast<double>(bytes) / 0x1p20;
          },
          [&bytes](double mebibytes) { bytes = bytes_of(mebibytes); }};
}

template <class T>
OptionField field(std::string path, Converted<T> value, std::string help, FieldLimits limits) {
  const std::string word(limits.empty_word);
  std::string type = type_text<T>(limits, false);
  if (!word.empty()) type = fmt::format("{} or {}", word, type);
  OptionField result = field_without_access(path, std::move(help), std::move(type), limits);
  result.read = [path, set = std::move(value.set), limits, word](const OptionTree& tree) {
    if (!word.empty() && tree.kind == OptionTree::Kind::scalar && tree.scalar == word)
      return set(T{});
    const bool cleared =
        std::is_same_v<T, std::filesystem::path> && tree.kind == OptionTree::Kind::null;
    set(cleared ? T{} : read_scalar<T>(tree, path, limits, false));
  };
  result.write = [get = std::move(value.get), word] {
    const T current = get();
    return !word.empty() && current == T{} ? word : Scalar<T>::write(current);
  };
  return result;
}

namespace {

template <class T>
std::string written(const std::vector<T>& values) {
  std::string text;
  for (const auto& item : values) text += (text.empty() ? "" : ", ") + Scalar<T>::write(item);
  return "[" + text + "]";
}

/// Whether the text is a list but for its brackets: "6", "6,6".
template <class T>
bool lists_items(const OptionTree& text) {
  OptionTree item = text;
  for (std::string_view rest = text.scalar;; rest.remove_prefix(1)) {
    const std::string_view word = rest.substr(0, rest.find(','));
    item.scalar = word.substr(std::min(word.find_first_not_of(' '), word.size()));
    if (!Scalar<T>::parse(item)) return false;
    rest.remove_prefix(word.size());
    if (rest.empty()) return true;
  }
}

}  // namespace

template <class T>
OptionField field(std::string path, Converted<std::vector<T>> value, std::string help,
                  FieldLimits limits) {
  std::string type = "list of " + type_text<T>(limits, true);
  if (!limits.empty_word.empty()) type = fmt::format("{} or {}", limits.empty_word, type);
  OptionField result = field_without_access(path, std::move(help), std::move(type), limits);
  result.read = [path, set = std::move(value.set), limits,
                 usual = value.get()](const OptionTree& tree) {
    if (tree.kind == OptionTree::Kind::scalar && !limits.empty_word.empty() &&
        tree.scalar == limits.empty_word)
      return set({});
    if (tree.kind != OptionTree::Kind::list)
      throw Error(
          ErrorCode::bad_options,
          fmt::format("{}: {} is {}; it must be {}list of {}", tree.where, path, shown(tree),
                      limits.empty_word.empty() ? "a " : fmt::format("{} or a ", limits.empty_word),
                      type_text<T>(limits, true)),
          usual.size() > 1 ? fmt::format("write a list such as {}", written(usual))
          : tree.kind == OptionTree::Kind::scalar && lists_items<T>(tree)
              ? fmt::format("write [{}]", printable(tree.scalar, 60))
              : fmt::format(
                    "write {}a list such as [{}]",
                    limits.empty_word.empty() ? "" : fmt::format("{}, or ", limits.empty_word),
                    Scalar<T>::example));
    std::vector<T> values;
    for (const auto& item : tree.items) values.push_back(read_scalar<T>(item, path, limits, true));
    set(std::move(values));
  };
  result.write = [get = std::move(value.get), word = std::string(limits.empty_word)] {
    const std::vector<T> values = get();
    if (values.empty() && !word.empty()) return word;
    return written(values);
  };
  return result;
}

template OptionField field(std::string, Converted<bool>, std::string, FieldLimits);
template OptionField field(std::string, Converted<int>, std::string, FieldLimits);
template OptionField field(std::string, Converted<std::int64_t>, std::string, FieldLimits);
template OptionField field(std::string, Converted<std::uint64_t>, std::string, FieldLimits);
template OptionField field(std::string, Converted<double>, std::string, FieldLimits);
template OptionField field(std::string, Converted<std::string>, std::string, FieldLimits);
template OptionField field(std::string, Converted<std::filesystem::path>, std::string, FieldLimits);
template OptionField field(std::string, Converted<std::chrono::seconds>, std::string, FieldLimits);
template OptionField field(std::string, Converted<std::vector<std::int64_t>>, std::string,
                           FieldLimits);
template OptionField field(std::string, Converted<std::vector<double>>, std::string, FieldLimits);
template OptionField field(std::string, Converted<std::vector<std::string>>, std::string,
                           FieldLimits);

}  // namespace troupe
