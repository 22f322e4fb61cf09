#include "shared_memory.h"

#include <link.h>

namespace cuda_on_cpu {
namespace {

// The program itself is the first object; what it says of its thread-local memory is its size.
int find_size(dl_phdr_info* program, std::size_t, void* result) {
  for (int i = 0; i < program->dlpi_phnum; ++i) {
    const auto& part = program->dlpi_phdr[i];
    if (part.p_type == PT_TLS)
      *static_cast<std::size_t*>(result) =
          (part.p_memsz + part.p_align - 1) / part.p_align * part.p_align;
  }
  return 1;
}

// It ends at the thread pointer (U. Drepper, "ELF handling for thread-local storage", variant II).
Region find_shared_memory() {
  Region region;
  dl_iterate_phdr(find_size, &region.bytes);
  region.begin = static_cast<std::byte*>(__builtin_thread_pointer()) - region.bytes;
  region.place = Place::shared;
  region.shadow = std::make_unique<Shadow>(region.bytes);
  return region;
}

}  // namespace

Region& shared_memory() {
  thread_local Region region = find_shared_memory();
  return region;
}

}  // namespace cuda_on_cpu
