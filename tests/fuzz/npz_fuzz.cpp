// NumPy's archives: whatever the bytes, arrays or an Error, in memory that the file's size bounds.

#include "runtime/error.h"
#include "runtime/file/npz.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(data, size);
  try {
    const troupe::NpzArchive archive(file.path());
    for (const std::string& name : archive.names()) try {
        (void)archive.headers({name});
        (void)archive.read(name);
      } catch (const troupe::Error&) {
      }
  } catch (const troupe::Error&) {
  }
  return 0;
}
