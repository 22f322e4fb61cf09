// HDF5 files: whatever the bytes, arrays or an Error, in memory that the file's size bounds.

#include "runtime/error.h"
#include "runtime/file/hdf5.h"
#include "tests/fuzz/memory_file.h"

// libhdf5 1.10 forgets memory on its way back from some damaged files.
extern "C" const char* __lsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "leak:libhdf5";
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile memory(data, size);
  try {
    const troupe::Hdf5File file(memory.path());
    for (const std::string& name : file.names()) try {
        if (file.contains(name)) (void)file.read(name);
      } catch (const troupe::Error&) {
      }
  } catch (const troupe::Error&) {
  }
  return 0;
}
