#pragma once
// A YAML document as a tree that knows where each of its values stands, so that every mistake in
// it can be pointed at. Anchors and aliases are refused: options have no use for them, and without
// them a document is never larger than its file.

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// A value of an options document.
struct OptionNode {
  enum class Kind { null, scalar, list, map };

  /// A key of a map with its value. Keys are unique in a map and keep the order of the file.
  struct Entry;

  Kind kind = Kind::null;
  std::string where;    ///< "options.yaml:3:7" (line and column from 1), "override -r a.b=c"
  std::string scalar;   ///< the text of a scalar
  bool quoted = false;  ///< a scalar in quotes is text, whatever it looks like
  std::vector<OptionNode> items;  ///< of a list
  std::vector<Entry> entries;     ///< of a map

  /// The entry with this key, or nullptr. Maps only; any other kind has no entries.
  const OptionNode* find(std::string_view key) const;
  OptionNode* find(std::string_view key);
};

struct OptionNode::Entry {
  std::string key;
  std::string where;  ///< of the key
  OptionNode value;
};

/// The largest file that is read as options, its deepest nesting and the longest of its maps.
inline constexpr std::size_t max_options_bytes = std::size_t{1} << 20;
inline constexpr std::size_t max_options_depth = 16;
inline constexpr std::size_t max_options_entries = 256;

/// Parses one YAML document. `source` begins every position ("options.yaml"); with
/// `whole_position` it is the position of all values, without line and column.
///
/// Throws Error{bad_options} for wrong syntax, duplicate keys, aliases, tags, more than one
/// document, and documents that are too large or too deep.
OptionNode parse_yaml(std::string_view text, const std::string& source,
                      bool whole_position = false);

/// Reads and parses a file. Throws Error{bad_options} when it cannot be read, and as parse_yaml.
OptionNode read_yaml(const std::filesystem::path& path);

/// Applies "a.b=value" to the tree; the value is YAML. Maps on the way are made where they are
/// missing; a map as the value is merged into the map that is there, anything else replaces what
/// was there. Throws Error{bad_options} when the text is no such assignment.
void apply_override(OptionNode& root, std::string_view assignment);

}  // namespace troupe
