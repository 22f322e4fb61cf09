#pragma once
// Strict reading of the JSON in tensor files. Only sources include this: nlohmann's headers are
// large and not part of the library's interface.

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// Parses one JSON value. Throws Error (bad_file), which names `origin`, for anything but valid
/// JSON in UTF-8, for a repeated key in an object, and for nesting deeper than 32.
nlohmann::json parse_json(std::string_view text, const std::string& origin);

/// `value` as JSON in UTF-8, compact for an indent of -1. Throws Error (internal) for a string that
/// is not UTF-8.
std::string dump_json(const nlohmann::ordered_json& value, int indent, const std::string& origin);

/// Reads the members of one JSON object; errors name the wrong member.
class JsonObject {
 public:
  /// `where` names the object in errors: "'model.safetensors': tensor 'fc.bias'".
  JsonObject(const nlohmann::json& value, std::string where);

  const nlohmann::json& at(const char* key) const;  ///< throws if it is missing
  std::uint64_t unsigned_at(const char* key) const;
  std::string string_at(const char* key) const;
  std::uint64_t hash_at(const char* key) const;  ///< written by hash_text()
  std::vector<std::uint64_t> unsigned_list_at(const char* key) const;
  std::vector<std::uint64_t> hash_list_at(const char* key) const;
  std::map<std::string, std::string> string_map_at(const char* key) const;
  /// Throws unless there are exactly `count` members, so that none is unknown.
  void expect_members(std::size_t count) const;

  [[noreturn]] void fail(const std::string& what) const;

 private:
  const nlohmann::json& value_;
  std::string where_;
};

/// A 64-bit checksum as sixteen lower-case hexadecimal digits.
inline std::string hash_text(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

}  // namespace troupe
