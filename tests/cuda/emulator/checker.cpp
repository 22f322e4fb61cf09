#include "checker.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "device.h"
#include "violations.h"

namespace cuda_on_cpu {
namespace {

// By stream and number; with the memory's lock.
std::vector<std::vector<const char*>>& names() {
  static auto* names = new std::vector<std::vector<const char*>>;
  return *names;
}

std::string who(const Access& access) {
  if (access.stream == host_stream) return "the host";
  const auto& of_stream = names().at(access.stream);
  const char* name =
      access.operation < of_stream.size() ? of_stream[access.operation] : "an operation";
  return fmt::format("{} (operation {} of stream {}, block {}, thread {})", name ? name : "?",
                     access.operation, access.stream, access.block, unsigned{access.thread});
}

const char* name(Place place) {
  switch (place) {
    case Place::device:
      return "device memory";
    case Place::pinned:
      return "pinned memory";
    case Place::shared:
      return "shared memory";
  }
  return "memory";
}

std::string where(const Region& region, const void* address) {
  const auto offset = static_cast<const std::byte*>(address) - region.begin;
  if (region.place == Place::shared) return "shared memory";
  return fmt::format("byte {} of {} bytes of {}", offset, region.bytes, name(region.place));
}

}  // namespace

void remember_name(const Operation& operation) {
  if (names().size() <= operation.stream) names().resize(operation.stream + 1u);
  auto& of_stream = names()[operation.stream];
  if (of_stream.size() <= operation.number) of_stream.resize(operation.number + 1u);
  of_stream[operation.number] = operation.name;
}

bool Checker::in_order(const Access& before, const Access& now) const {
  if (before.operation == 0) return true;
  if (!before.same_operation(now)) return operation_.before.covers(before.stream, before.operation);
  if (before.block != now.block) return false;
  if (before.thread == now.thread || before.barrier != now.barrier) return true;
  return before.thread / 32 == now.thread / 32 && before.warp_barrier != now.warp_barrier;
}

const char* Checker::fault_of_read(Place place, const Cell& cell, const Access& now,
                                   Access& before) const {
  before = cell.write;
  // What the host writes to pinned memory is seen in part only.
  if (cell.write.operation == 0)
    return place == Place::pinned || !sees_all_ ? nullptr : "reads what nobody wrote";
  if (!in_order(cell.write, now)) return "reads, not in order, what was written by";
  return nullptr;
}

const char* Checker::fault_of_write(const Cell& cell, const Access& now, Access& before) const {
  before = cell.write;
  if (!in_order(before, now)) return "writes, not in order, what was written by";
  for (const Access& read : {cell.reader, cell.other_reader, cell.concurrent_reader}) {
    before = read;
    if (!in_order(before, now)) return "writes, not in order, what is read by";
  }
  return nullptr;
}

void Checker::remember_read(Cell& cell, const Access& now) const {
  if (cell.reader.same_operation(now)) {
    if (!cell.reader.same_thread(now)) cell.other_reader = cell.reader;
  } else {
    if (!in_order(cell.reader, now)) cell.concurrent_reader = cell.reader;
    cell.other_reader = {};
  }
  cell.reader = now;
}

void Checker::report_race(const char* what, const Region& region, const void* address,
                          const Access& before, const Access& now) const {
  const std::string by = before.operation == 0 ? "" : fmt::format(" {}", who(before));
  report(fmt::format("{} {}{}: {}", who(now), what, by, where(region, address)));
}

Checker::Checker(const Operation& operation)
    : operation_(operation), sees_all_(Device::get().checked_places() == 1) {}

void Checker::access(Region& region, const void* address, std::size_t bytes, Mode mode,
                     const Access& thread) {
  Access now = thread;
  now.stream = operation_.stream;
  now.operation = operation_.number;
  const auto offset =
      static_cast<std::size_t>(static_cast<const std::byte*>(address) - region.begin);
  const char* does = mode == Mode::read ? "reads" : "writes";
  if (!region.shadow)
    return report(fmt::format("{} {} {} that was freed", who(now), does, name(region.place)));
  if (offset + bytes > region.bytes)
    return report(fmt::format("{} {} {} bytes at byte {} of {} bytes of {}: beyond the end",
                              who(now), does, bytes, offset, region.bytes, name(region.place)));
  if (!region.checked) return;
  bool told = false;  // once for each access
  for (Cell& cell : region.shadow->cells(offset, bytes)) {
    // What other blocks and kernels left in shared memory is nothing that this one may see.
    if (region.place == Place::shared && !cell.write.same_block(now)) cell = {};
    if (region.place == Place::shared && !cell.reader.same_block(now))
      cell.reader = cell.other_reader = cell.concurrent_reader = {};
    Access before;
    const char* fault = mode == Mode::read ? fault_of_read(region.place, cell, now, before)
                                           : fault_of_write(cell, now, before);
    if (fault && !told) report_race(fault, region, address, before, now);
    told = told || fault;
    if (mode == Mode::read)
      remember_read(cell, now);
    else
      cell = {.write = now, .reader = {}, .other_reader = {}, .concurrent_reader = {}};
  }
}

void Checker::free(Region& region) {
  Access now;
  now.operation = operation_.number;
  for (const Cell& cell : region.shadow->all())
    for (const Access& last : {cell.write, cell.reader, cell.other_reader, cell.concurrent_reader})
      if (!in_order(last, now))
        return report_race("frees, not in order, what is used by", region, region.begin, last, now);
}

}  // namespace cuda_on_cpu
