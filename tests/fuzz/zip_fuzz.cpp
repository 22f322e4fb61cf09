// Zip archives: whatever the bytes, members or an Error, in memory that the file's size bounds.

#include <cstdlib>

#include "runtime/error.h"
#include "runtime/file/zip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace troupe;
  constexpr std::uint64_t most_bytes = std::uint64_t{64} << 20;
  try {
    const ZipArchive archive = ZipArchive::parse(std::as_bytes(std::span(data, size)), "input");
    std::uint64_t packed = 0;
    for (const ZipMember& member : archive.members()) {
      if (archive.find(member.name) != &member) std::abort();
      packed += member.packed_size;
      try {
        if (archive.content(member, most_bytes).bytes.size() != member.size) std::abort();
      } catch (const Error&) {
      }
    }
    if (packed > size) std::abort();  // members do not overlap
  } catch (const Error&) {
  }
  return 0;
}
