#include <fmt/format.h>

#include <array>
#include <cstring>
#include <set>

#include "runtime/file/json.h"
#include "runtime/file/shard.h"
#include "runtime/file/shard_format.h"

namespace troupe {
namespace {

using namespace shard_format;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Shape parse_shape(const JsonObject& object) {
  std::vector<std::int64_t> dims;
  for (std::uint64_t size : object.unsigned_list_at("shape")) {
    if (size > std::uint64_t{1} << 62) object.fail(fmt::format("an axis of {} elements", size));
    dims.push_back(static_cast<std::int64_t>(size));
  }
  try {
    return Shape(dims);
  } catch (const Error& error) {
    object.fail(error.message());
  }
}

/// One tensor of the index, whose blocks begin at `at`; moves `at` behind them.
ShardEntry parse_entry(const nlohmann::json& value, const std::string& where,
                       std::size_t block_bytes, std::uint64_t& at, std::uint64_t data_end) {
  const JsonObject object(value, where);
  object.expect_members(5);
  ShardEntry entry;
  entry.name = object.string_at("name");
  const std::string dtype = object.string_at("dtype");
  const auto found = find_dtype(dtype);
  if (!found) object.fail(fmt::format("unknown element type '{}'", dtype));
  entry.dtype = *found;
  entry.shape = parse_shape(object);
  const std::vector<std::uint64_t> stored = object.unsigned_list_at("stored");
  entry.checksums = object.hash_list_at("checksums");
  const std::uint64_t raw_bytes = entry.raw_bytes();
  const std::uint64_t blocks = block_count(raw_bytes, block_bytes);
  if (stored.size() != blocks || entry.checksums.size() != blocks)
    object.fail(fmt::format("{} bytes take {} blocks of {}, but {} lengths and {} checksums follow",
                            raw_bytes, blocks, block_bytes, stored.size(), entry.checksums.size()));
  entry.begins = {at};
  for (std::size_t block = 0; block < stored.size(); ++block) {
    const std::uint64_t raw = std::min<std::uint64_t>(block_bytes, raw_bytes - block * block_bytes);
    // Without these bounds a small file could ask for any amount of memory.
    if (stored[block] > raw || stored[block] > data_end - at ||
        raw > stored[block] * lz4_largest_ratio)
      object.fail(fmt::format("block {} of {} bytes states {} stored bytes; {} are left", block,
                              raw, stored[block], data_end - at));
    at += stored[block];
    entry.begins.push_back(at);
  }
  return entry;
}

}  // namespace

ShardReader::ShardReader(std::span<const std::byte> bytes, std::string origin,
                         std::shared_ptr<const void> owner)
    : bytes_(bytes), origin_(std::move(origin)), owner_(std::move(owner)) {
  if (bytes.size() < head.size() + trailer_bytes)
    fail(fmt::format("{} bytes are too few for a shard", bytes.size()));
  if (text_of(bytes.first(head.size())) != head || text_of(bytes.last(tail.size())) != tail)
    fail("its first or last 8 bytes are not those of a shard");
  std::array<std::uint64_t, 2> numbers{};
  std::memcpy(numbers.data(), bytes.last(trailer_bytes).data(), sizeof numbers);
  const auto [length, expected] = numbers;
  const std::size_t room = bytes.size() - head.size() - trailer_bytes;
  if (length > room)
    fail(fmt::format("its index claims {} bytes, the file has room for {}", length, room));
  const auto index = bytes.subspan(bytes.size() - trailer_bytes - length, length);
  index_checksum_ = checksum(index);
  if (index_checksum_ != expected)
    fail(fmt::format("its index has the checksum {}, not {}", hash_text(index_checksum_),
                     hash_text(expected)));
  parse_index(text_of(index));
}

void ShardReader::parse_index(std::string_view text) {
  const std::string where = fmt::format("index of '{}'", origin_);
  const nlohmann::json json = parse_json(text, where);
  const JsonObject index(json, where);
  index.expect_members(2);
  const std::uint64_t block_bytes = index.unsigned_at("block_bytes");
  if (!is_block_size(block_bytes)) fail(fmt::format("blocks of {} bytes", block_bytes));
  block_bytes_ = block_bytes;
  const nlohmann::json& list = index.at("tensors");
  if (!list.is_array()) index.fail("'tensors' must be a list");
  std::uint64_t at = head.size();
  const std::uint64_t data_end = bytes_.size() - trailer_bytes - text.size();
  std::set<std::string> names;
  for (const nlohmann::json& value : list) {
    const std::string entry_where = fmt::format("{}: tensor {}", where, entries_.size());
    entries_.push_back(parse_entry(value, entry_where, block_bytes_, at, data_end));
    if (!names.insert(entries_.back().name).second)
      fail(fmt::format("tensor '{}' appears twice", entries_.back().name));
  }
  if (at != data_end)
    fail(fmt::format("its blocks end at byte {}, its index begins at {}", at, data_end));
}

std::span<const std::byte> ShardReader::stored(const ShardEntry& entry, std::size_t block) const {
  return bytes_.subspan(entry.begins[block], entry.begins[block + 1] - entry.begins[block]);
}

void ShardReader::verify_block(const ShardEntry& entry, std::size_t block) const {
  const std::uint64_t found = checksum(stored(entry, block));
  if (found != entry.checksums[block])
    fail(fmt::format("block {} of tensor '{}' has the checksum {}, not {}", block, entry.name,
                     hash_text(found), hash_text(entry.checksums[block])));
}

void ShardReader::load_block(const ShardEntry& entry, std::size_t block, const Tensor& tensor,
                             BlockScratch& scratch) const {
  verify_block(entry, block);
  const std::size_t begin = block * block_bytes_;
  const std::span<std::byte> raw(tensor.raw() + begin,
                                 std::min(block_bytes_, tensor.bytes() - begin));
  if (!unpack_block(stored(entry, block), size_of(entry.dtype), raw, scratch))
    fail(fmt::format("block {} of tensor '{}' does not unpack to {} bytes", block, entry.name,
                     raw.size()));
  if (entry.dtype == DType::boolean)
    for (std::byte value : raw)
      if (value > std::byte{1})
        fail(fmt::format("tensor '{}' holds {} where 0 or 1 is possible", entry.name,
                         std::to_integer<int>(value)));
}

void ShardReader::fail(const std::string& what) const {
  throw Error(ErrorCode::bad_file, fmt::format("reading shard '{}': {}", origin_, what),
              "the file is damaged or truncated: use another checkpoint");
}

}  // namespace troupe
