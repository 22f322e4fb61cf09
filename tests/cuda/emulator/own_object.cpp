#include "own_object.h"

#include <link.h>

#include <algorithm>
#include <cstdint>

namespace cuda_on_cpu {
namespace {

struct Found {
  OwnObject object;
  std::byte* thread_local_memory = nullptr;  ///< of the calling thread
};

// Code and constants, from the first to the last part that is loaded.
OwnObject describe(const dl_phdr_info& info) {
  OwnObject object;
  std::uintptr_t first = UINTPTR_MAX, end = 0;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& part = info.dlpi_phdr[i];
    if (part.p_type == PT_TLS) object.thread_local_bytes = part.p_memsz;
    if (part.p_type != PT_LOAD) continue;
    first = std::min<std::uintptr_t>(first, info.dlpi_addr + part.p_vaddr);
    end = std::max<std::uintptr_t>(end, info.dlpi_addr + part.p_vaddr + part.p_memsz);
  }
  object.begin = reinterpret_cast<const std::byte*>(first);
  object.bytes = end - first;
  return object;
}

int look(dl_phdr_info* info, std::size_t, void* result) {
  const OwnObject object = describe(*info);
  const auto here = reinterpret_cast<std::uintptr_t>(&look);
  if (here - reinterpret_cast<std::uintptr_t>(object.begin) >= object.bytes) return 0;
  *static_cast<Found*>(result) = {object, static_cast<std::byte*>(info->dlpi_tls_data)};
  return 1;
}

Found find() {
  // A library's thread-local memory is there once a thread has used it.
  [[maybe_unused]] thread_local volatile char used;
  used = 1;
  Found found;
  dl_iterate_phdr(look, &found);
  return found;
}

Region find_shared_memory() {
  const Found found = find();
  Region region;
  region.begin = found.thread_local_memory;
  region.bytes = found.object.thread_local_bytes;
  region.place = Place::shared;
  region.shadow = std::make_unique<Shadow>(region.bytes);
  return region;
}

}  // namespace

const OwnObject& own_object() {
  static const OwnObject object = find().object;
  return object;
}

Region& shared_memory() {
  thread_local Region region = find_shared_memory();
  return region;
}

}  // namespace cuda_on_cpu
