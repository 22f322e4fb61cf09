#include "runtime/file/manifest.h"

#include "runtime/file/block.h"
#include "runtime/file/json.h"

namespace troupe {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::uint64_t format_version = 1;
constexpr std::size_t known_members = 9;
// The text ends with these and the checksum between them; the checksum covers all before it.
constexpr std::string_view before_checksum = ",\n  \"checksum\": \"";
constexpr std::string_view after_checksum = "\"\n}\n";
constexpr std::size_t ending_bytes = 16 + after_checksum.size();

Json position_json(const Manifest& manifest) {
  try {
    return Json(parse_json(manifest.position, "a checkpoint's position"));
  } catch (const Error& error) {
    throw Error(ErrorCode::internal, error.message(), "give JSON, nested at most 30 deep");
  }
}

Json shard_json(const ShardInfo& shard) {
  return {{"file", shard.file},
          {"stage", shard.stage},
          {"bytes", shard.summary.bytes},
          {"index_checksum", hash_text(shard.summary.index_checksum)}};
}

ShardInfo parse_shard(const nlohmann::json& value, const std::string& where) {
  const JsonObject object(value, where);
  object.expect_members(4);
  ShardInfo shard;
  shard.file = object.string_at("file");
  if (shard.file.empty() || shard.file.front() == '.' ||
      shard.file.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos)
    object.fail(fmt::format("'{}' is not a shard name", shard.file));
  const std::uint64_t stage = object.unsigned_at("stage");
  if (stage > 1'000'000) object.fail(fmt::format("stage {}", stage));
  shard.stage = static_cast<int>(stage);
  shard.summary = {object.unsigned_at("bytes"), object.hash_at("index_checksum")};
  return shard;
}

/// The text without its ending; throws where the checksum does not fit.
std::string_view checked_text(std::string_view text, const std::string& origin) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::bad_file, fmt::format("'{}': {}", origin, what),
                "the file was changed, damaged or truncated: use another checkpoint");
  };
  if (text.size() < ending_bytes || !text.ends_with(after_checksum))
    fail("it does not end with a checksum");
  const std::string_view covered = text.substr(0, text.size() - ending_bytes);
  const std::string_view found = text.substr(covered.size(), 16);
  const std::string expected = hash_text(checksum(as_bytes(covered)));
  if (!covered.ends_with(before_checksum)) fail("it does not end with a checksum");
  if (found != expected) fail(fmt::format("its checksum is {}, not {}", expected, found));
  return covered.substr(0, covered.size() - before_checksum.size());
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  Json shards = Json::array();
  for (const ShardInfo& shard : manifest.shards) shards.push_back(shard_json(shard));
  const Json json = {{"format", format_version},
                     {"step", manifest.step},
                     {"generation", manifest.generation},
                     {"created", manifest.created},
                     {"run", manifest.run},
                     {"options", manifest.options},
                     {"position", position_json(manifest)},
                     {"shards", std::move(shards)}};
  std::string text = dump_json(json, 2, "a checkpoint's manifest");
  text.resize(text.size() - 2);  // the end of the last member instead of "\n}"
  text += before_checksum;
  text += hash_text(checksum(as_bytes(text)));
  text += after_checksum;
  return text;
}

Manifest parse_manifest(std::string_view text, const std::string& origin) {
  checked_text(text, origin);
  const std::string where = fmt::format("'{}'", origin);
  const nlohmann::json json = parse_json(text, where);
  const JsonObject object(json, where);
  const std::uint64_t format = object.unsigned_at("format");
  if (format != format_version)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: checkpoint format {}; this version reads format {}", where, format,
                            format_version),
                "read it with the version of Troupe that wrote it");
  object.expect_members(known_members);
  Manifest manifest;
  const std::uint64_t step = object.unsigned_at("step");
  if (step > std::uint64_t{1} << 62) object.fail(fmt::format("step {}", step));
  manifest.step = static_cast<std::int64_t>(step);
  manifest.generation = object.unsigned_at("generation");
  manifest.created = object.string_at("created");
  manifest.run = object.string_map_at("run");
  manifest.options = object.string_at("options");
  manifest.position = object.at("position").dump();
  const nlohmann::json& shards = object.at("shards");
  if (!shards.is_array()) object.fail("'shards' must be a list");
  for (const nlohmann::json& shard : shards)
    manifest.shards.push_back(parse_shard(shard, where + ": a shard"));
  return manifest;
}

}  // namespace troupe
