// Tables: the first byte says what the targets are; whatever follows, a data set or an Error.

#include <vector>

#include "actors/data/csv_table.h"
#include "runtime/error.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  using namespace troupe;
  const MemoryFile file(data + 1, size - 1);
  const TargetKind kind = target_kind_names[data[0] % target_kind_names.size()].second;
  try {
    const Dataset table =
        open_dataset(CsvTable{.path = file.path(), .targets = kind, .test_fraction = 0.25});
    if (const auto stored = table.stored(Split::train); stored && stored->samples.bytes() == 0)
      std::abort();
  } catch (const Error&) {
  }
  return 0;
}
