#pragma once
// A YAML document as a tree with the position of each value, so that errors can name it. Anchors
// and aliases are refused: options do not need them, and without them a document is never larger
// than its file.

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// A value of an options document.
struct OptionTree {
  enum class Kind { null, scalar, list, map };

  /// A key of a map with its value. Keys are unique within a map and in the order of the file.
  struct Entry;

  Kind kind = Kind::null;
  /// The position, "options.yaml:3:7" (line and column from 1), or the name of an override.
  std::string where;
  std::string scalar;             ///< the text of a scalar
  bool quoted = false;            ///< a scalar in quotes is always text
  std::vector<OptionTree> items;  ///< of a list
  std::vector<Entry> entries;     ///< of a map

  /// The entry with this key, or nullptr. Maps only; any other kind has no entries.
  const OptionTree* find(std::string_view key) const;
  OptionTree* find(std::string_view key);
};

struct OptionTree::Entry {
  std::string key;
  std::string where;  ///< of the key
  OptionTree value;
};

/// The largest file, the deepest nesting and the longest map that are accepted.
inline constexpr std::size_t max_options_bytes = std::size_t{1} << 20;
inline constexpr std::size_t max_options_depth = 16;
inline constexpr std::size_t max_options_entries = 256;

/// Parses one YAML document. Every position begins with `source` ("options.yaml"); with
/// `whole_position` it is `source` alone, without line and column.
///
/// Throws Error{bad_options} for wrong syntax, duplicate keys, aliases, tags, more than one
/// document, and documents that are too large or too deep.
OptionTree parse_yaml(std::string_view text, const std::string& source,
                      bool whole_position = false);

/// Reads and parses a file. Throws Error{bad_options} with `remedy` if it cannot be read, and as
/// parse_yaml.
OptionTree read_yaml(const std::filesystem::path& path,
                     const std::string& remedy = "check the path");

/// Applies "a.b=value" to the tree; the value is YAML. Missing maps on the path are created. A map
/// as the value is merged into the existing map; any other value replaces the existing one. Throws
/// Error{bad_options} if the text is no such assignment. `where` is the position of its values.
void apply_override(OptionTree& root, std::string_view assignment, const std::string& where);

}  // namespace troupe
