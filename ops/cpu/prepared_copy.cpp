#include "ops/cpu/prepared_copy.h"

#include <algorithm>

#include "ops/cpu/pieces.h"

namespace troupe::cpu {
namespace {

using dnnl::memory;

/// Copies of `parts` parts of the first dimension, each of a multiple of `unit`. Throws dnnl::error
/// if a block of one of the orders would be divided.
std::vector<PreparedPrimitive> divided(const memory::desc& from, const memory::desc& to,
                                       std::int64_t parts, std::int64_t unit) {
  std::vector<PreparedPrimitive> result;
  memory::dims dims = from.dims(), begin(dims.size(), 0);
  const std::int64_t all = dims[0], units = (all + unit - 1) / unit;
  for (std::int64_t part = 0; part < parts; ++part) {
    begin[0] = std::min(all, units * part / parts * unit);
    dims[0] = std::min(all, units * (part + 1) / parts * unit) - begin[0];
    if (dims[0] > 0)
      result.push_back(
          prepare_copy(from.submemory_desc(dims, begin), to.submemory_desc(dims, begin)));
  }
  return result;
}

}  // namespace

PreparedCopy::PreparedCopy(const Stream& stream, const memory::desc& from, const memory::desc& to) {
  constexpr std::size_t bytes_per_thread = 32768;
  const auto parts = std::min<std::int64_t>(
      stream.threads, static_cast<std::int64_t>(from.get_size() / bytes_per_thread));
  for (const std::int64_t unit : {1, 16, 64}) {  // the blocks of oneDNN's orders
    if (parts < 2) break;
    try {
      parts_ = divided(from, to, parts, unit);
      return;
    } catch (const dnnl::error&) {  // larger blocks, or an order that cannot be divided
    }
  }
  parts_.push_back(prepare_copy(from, to));
}

void PreparedCopy::run(const Stream& stream, const void* from, void* to) {
  std::size_t bytes = 0;
  for (PreparedPrimitive& part : parts_) {
    part.set(DNNL_ARG_FROM, from);
    part.set(DNNL_ARG_TO, to);
    bytes = std::max(bytes, part.scratch_bytes());
  }
  run_pieces(stream, parts_.size(), bytes,
             [&](std::size_t i, std::byte* scratch) { parts_[i].execute_here(scratch); });
}

PreparedPrimitive prepare_copy(const memory::desc& from, const memory::desc& to) {
  use_one_thread();
  const dnnl::reorder::primitive_desc description(onednn_engine(), from, onednn_engine(), to,
                                                  onednn_attributes());
  return {dnnl::reorder(description),
          {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}},
          description.scratchpad_desc()};
}

}  // namespace troupe::cpu
