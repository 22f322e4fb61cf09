#include "runtime/file/json.h"

#include <optional>
#include <set>

#include "runtime/error.h"

namespace troupe {
namespace {

using Json = nlohmann::json;
constexpr int deepest = 32;

/// Refuses what a plain parse would let pass: deep nesting and repeated keys. Reads the text once
/// more, because a parse with a callback takes quadratic time in the members of an object.
class Guard final : public nlohmann::json_sax<Json> {
 public:
  explicit Guard(const std::string& origin) : origin_(origin) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    enter();
    keys_.emplace_back();
    return true;
  }
  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second)
      throw Error(ErrorCode::bad_file, fmt::format("{}: the key '{}' appears twice", origin_, name),
                  "the file is damaged or was written by a faulty program");
    return true;
  }
  bool end_object() override {
    --depth_;
    keys_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override {
    enter();
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  /// The parse after this one throws it.
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    return false;
  }

 private:
  void enter() {
    if (depth_++ > deepest)
      throw Error(ErrorCode::bad_file,
                  fmt::format("{}: nested deeper than {} levels", origin_, deepest),
                  "the file is damaged or of another kind");
  }
  const std::string& origin_;
  int depth_ = 0;
  std::vector<std::set<std::string>> keys_;
};

std::optional<std::uint64_t> parse_hash(const Json& value) {
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    return std::nullopt;
  return std::stoull(text, nullptr, 16);
}

}  // namespace

Json parse_json(std::string_view text, const std::string& origin) {
  Guard guard(origin);
  try {
    Json::sax_parse(text, &guard);
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::bad_file, fmt::format("{}: not valid JSON ({})", origin, error.what()),
                "the file is damaged or of another kind");
  }
}

std::string dump_json(const nlohmann::ordered_json& value, int indent, const std::string& origin) {
  try {
    return value.dump(indent);
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::internal, fmt::format("{}: {}", origin, error.what()),
                "names and metadata must be UTF-8");
  }
}

JsonObject::JsonObject(const Json& value, std::string where)
    : value_(value), where_(std::move(where)) {
  if (!value.is_object()) fail(fmt::format("a JSON object is expected, not {}", value.type_name()));
}

void JsonObject::fail(const std::string& what) const {
  throw Error(ErrorCode::bad_file, fmt::format("{}: {}", where_, what),
              "the file is damaged or was written by a faulty program");
}

const Json& JsonObject::at(const char* key) const {
  const auto found = value_.find(key);
  if (found == value_.end()) fail(fmt::format("'{}' is missing", key));
  return *found;
}

std::uint64_t JsonObject::unsigned_at(const char* key) const {
  const Json& value = at(key);
  if (!value.is_number_unsigned())
    fail(fmt::format("'{}' must be a non-negative integer, not {}", key, value.type_name()));
  return value.get<std::uint64_t>();
}

std::string JsonObject::string_at(const char* key) const {
  const Json& value = at(key);
  if (!value.is_string()) fail(fmt::format("'{}' must be text, not {}", key, value.type_name()));
  return value.get<std::string>();
}

std::uint64_t JsonObject::hash_at(const char* key) const {
  const auto hash = parse_hash(at(key));
  if (!hash) fail(fmt::format("'{}' must be sixteen hexadecimal digits", key));
  return *hash;
}

std::vector<std::uint64_t> JsonObject::unsigned_list_at(const char* key) const {
  const Json& list = at(key);
  if (!list.is_array()) fail(fmt::format("'{}' must be a list, not {}", key, list.type_name()));
  std::vector<std::uint64_t> result;
  result.reserve(list.size());
  for (const Json& value : list) {
    if (!value.is_number_unsigned())
      fail(fmt::format("'{}' must contain non-negative integers", key));
    result.push_back(value.get<std::uint64_t>());
  }
  return result;
}

std::vector<std::uint64_t> JsonObject::hash_list_at(const char* key) const {
  const Json& list = at(key);
  if (!list.is_array()) fail(fmt::format("'{}' must be a list, not {}", key, list.type_name()));
  std::vector<std::uint64_t> result;
  result.reserve(list.size());
  for (const Json& value : list) {
    const auto hash = parse_hash(value);
    if (!hash) fail(fmt::format("'{}' must contain strings of sixteen hexadecimal digits", key));
    result.push_back(*hash);
  }
  return result;
}

std::map<std::string, std::string> JsonObject::string_map_at(const char* key) const {
  const Json& map = at(key);
  if (!map.is_object()) fail(fmt::format("'{}' must be an object, not {}", key, map.type_name()));
  std::map<std::string, std::string> result;
  for (const auto& [name, value] : map.items()) {
    if (!value.is_string())
      fail(fmt::format("'{}.{}' must be text, not {}", key, name, value.type_name()));
    result.emplace(name, value.get<std::string>());
  }
  return result;
}

void JsonObject::expect_members(std::size_t count) const {
  if (value_.size() != count)
    fail(fmt::format("it has {} members, but {} are known", value_.size(), count));
}

}  // namespace troupe
