#include <fmt/format.h>

#include <array>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>

#include "runtime/file/json.h"
#include "runtime/file/parallel.h"
#include "runtime/file/shard.h"
#include "runtime/file/shard_format.h"

namespace troupe {
namespace {

using namespace shard_format;

struct Block {
  std::size_t tensor;
  std::span<const std::byte> raw;
  std::size_t element_bytes;
};

struct StoredBlock {
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
};

std::vector<Block> cut_into_blocks(const std::vector<NamedTensor>& tensors,
                                   std::size_t block_bytes) {
  std::vector<Block> blocks;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const Tensor& tensor = tensors[t].tensor;
    std::span<const std::byte> rest(tensor.raw(), tensor.bytes());
    while (!rest.empty()) {
      const auto raw = rest.first(std::min(rest.size(), block_bytes));
      blocks.push_back({t, raw, size_of(tensor.dtype())});
      rest = rest.subspan(raw.size());
    }
  }
  return blocks;
}

/// Gives packed blocks their places in the file in the order of the blocks, so that the file does
/// not depend on which thread was faster. Only the place is waited for; writing is concurrent.
class Placement {
 public:
  explicit Placement(std::uint64_t begin) : end_(begin) {}

  /// Waits for all blocks before `index`. Nothing after an abort().
  std::optional<std::uint64_t> place(std::size_t index, std::size_t bytes) {
    std::unique_lock lock(mutex_);
    turn_.wait(lock, [&] { return next_ == index || aborted_; });
    if (aborted_) return std::nullopt;
    const std::uint64_t begin = end_;
    end_ += bytes;
    ++next_;
    turn_.notify_all();
    return begin;
  }
  void abort() {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    turn_.notify_all();
  }
  std::uint64_t end() const { return end_; }

 private:
  std::mutex mutex_;
  std::condition_variable turn_;
  std::size_t next_ = 0;
  std::uint64_t end_;
  bool aborted_ = false;
};

/// Packs and writes all blocks; throws the file system's refusal as an Error.
std::vector<StoredBlock> write_blocks(OutputFile& file, const std::vector<Block>& blocks,
                                      Placement& placement, const ShardWriteOptions& options) {
  std::vector<StoredBlock> stored(blocks.size());
  std::vector<BlockScratch> scratch(static_cast<std::size_t>(std::max(options.threads, 1)));
  parallel_for(blocks.size(), options.threads, [&](std::size_t index, std::size_t worker) {
    const Block& block = blocks[index];
    try {
      const auto packed = pack_block(block.raw, block.element_bytes, scratch[worker]);
      stored[index] = {packed.size(), checksum(packed)};
      const auto place = placement.place(index, packed.size());
      if (!place) return;
      if (Status status = file.write_at(*place, packed); !status) throw status.error();
    } catch (...) {
      placement.abort();
      throw;
    }
  });
  return stored;
}

std::string index_text(const std::vector<NamedTensor>& tensors, const std::vector<Block>& blocks,
                       const std::vector<StoredBlock>& stored, std::size_t block_bytes,
                       const std::string& path) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  std::size_t block = 0;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    Json sizes = Json::array();
    Json checksums = Json::array();
    for (; block < blocks.size() && blocks[block].tensor == t; ++block) {
      sizes.push_back(stored[block].bytes);
      checksums.push_back(hash_text(stored[block].checksum));
    }
    const Tensor& tensor = tensors[t].tensor;
    list.push_back({{"name", tensors[t].name},
                    {"dtype", name_of(tensor.dtype())},
                    {"shape", tensor.shape().dims()},
                    {"stored", std::move(sizes)},
                    {"checksums", std::move(checksums)}});
  }
  return dump_json({{"block_bytes", block_bytes}, {"tensors", std::move(list)}}, -1, path);
}

void check_writable(const std::vector<NamedTensor>& tensors, std::size_t block_bytes,
                    const std::string& path) {
  if (!is_block_size(block_bytes))
    throw Error(ErrorCode::internal,
                fmt::format("writing '{}': blocks of {} bytes", path, block_bytes),
                "use a multiple of 8 up to 64 MiB");
  for (const auto& [name, tensor] : tensors)
    if (!tensor.defined() || tensor.layout() != Layout::row_major || tensor.device() != Device{})
      throw Error(ErrorCode::internal,
                  fmt::format("writing '{}': tensor '{}' is not row-major on the CPU", path, name));
}

}  // namespace

Result<ShardSummary> write_shard(const std::filesystem::path& path,
                                 const std::vector<NamedTensor>& tensors,
                                 const ShardWriteOptions& options) {
  check_writable(tensors, options.block_bytes, path.string());
  Result<OutputFile> created = OutputFile::create(path, options.hook);
  if (!created) return created.error();
  OutputFile& file = created.value();
  if (Status status = file.write_at(0, as_bytes(head)); !status) return status.error();

  const std::vector<Block> blocks = cut_into_blocks(tensors, options.block_bytes);
  Placement placement(head.size());
  std::vector<StoredBlock> stored;
  try {
    stored = write_blocks(file, blocks, placement, options);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) return error;
    throw;
  }

  std::string end = index_text(tensors, blocks, stored, options.block_bytes, path.string());
  const std::array<std::uint64_t, 2> numbers{end.size(), checksum(as_bytes(end))};
  end.append(reinterpret_cast<const char*>(numbers.data()), sizeof numbers);
  end += tail;
  Status status = file.write_at(placement.end(), as_bytes(end));
  if (status) status = file.sync();
  if (!status) return status.error();
  return ShardSummary{placement.end() + end.size(), numbers[1]};
}

}  // namespace troupe
