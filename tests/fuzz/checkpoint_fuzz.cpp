// Checkpoints. Checksums would stop nearly every input at the door, so the first byte says which
// part is tried, and the checksums of the other bytes are put right.

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "runtime/error.h"
#include "runtime/file/json.h"
#include "runtime/file/manifest.h"
#include "runtime/file/shard.h"
#include "runtime/file/shard_format.h"

namespace {

using namespace troupe;

void read_manifest(std::string text) {
  text += ",\n  \"checksum\": \"";
  text += hash_text(checksum(as_bytes(text))) + "\"\n}\n";
  (void)parse_manifest(text, "input");
}

void read_shard(const std::string& bytes) {
  const ShardReader reader(as_bytes(bytes), "input");
  BlockScratch scratch;
  for (const ShardEntry& entry : reader.entries()) {
    const Tensor tensor = Tensor::empty(entry.shape, entry.dtype, Device::cpu());
    for (std::size_t block = 0; block < entry.blocks(); ++block)
      reader.load_block(entry, block, tensor, scratch);
  }
}

/// The text behind the first zero byte as the data, the text before as the index.
void read_index(const std::string& input) {
  const std::string index = input.substr(0, input.find('\0'));
  const std::string blocks = input.substr(std::min(input.size(), index.size() + 1));
  const std::array<std::uint64_t, 2> numbers{index.size(), checksum(as_bytes(index))};
  std::string bytes(shard_format::head);
  bytes += blocks + index;
  bytes.append(reinterpret_cast<const char*>(numbers.data()), sizeof numbers);
  bytes += shard_format::tail;
  read_shard(bytes);
}

void read_block(const std::string& input) {
  if (input.size() < 3) return;
  const std::size_t element_bytes = std::size_t{1} << (input[0] & 3);
  const auto elements = static_cast<unsigned char>(input[1]) + 256u * (input[2] & 15);
  std::vector<std::byte> raw(elements * element_bytes);
  BlockScratch scratch;
  (void)unpack_block(as_bytes(std::string_view(input).substr(3)), element_bytes, raw, scratch);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 4) {
      case 0:
        read_manifest(rest);
        break;
      case 1:
        read_index(rest);
        break;
      case 2:
        read_block(rest);
        break;
      default:
        read_shard(rest);
    }
  } catch (const Error&) {
  }
  return 0;
}
