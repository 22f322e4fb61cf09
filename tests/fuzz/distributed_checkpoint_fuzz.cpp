// `.metadata` of distributed checkpoints: whatever the bytes, a description or an Error.

#include <cstdlib>

#include "runtime/error.h"
#include "runtime/file/distributed_metadata.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace troupe;
  const MemoryFile file(data, size);
  try {
    const distributed::Metadata metadata = distributed::read_metadata(file.path());
    for (const std::string_view name : metadata.names) {
      const distributed::StoredTensor& tensor = metadata.tensors.at(name);
      if (tensor.path.empty()) std::abort();
      for (const distributed::Part& part : tensor.parts)
        if (part.file.empty() || part.file.find('/') != std::string_view::npos ||
            part.shape.rank() != tensor.shape.rank())
          std::abort();
    }
  } catch (const Error&) {
  }
  return 0;
}
