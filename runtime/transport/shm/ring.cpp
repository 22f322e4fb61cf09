#include "runtime/transport/shm/ring.h"

#include <algorithm>
#include <limits>

#include "runtime/error.h"

namespace troupe::transport {

void Descriptor::set_meta(const TensorMeta& meta) {
  dtype = static_cast<std::uint8_t>(meta.dtype);
  layout = static_cast<std::uint8_t>(meta.layout);
  rank = static_cast<std::uint8_t>(meta.shape.rank());
  std::copy(meta.shape.dims().begin(), meta.shape.dims().end(), dims.begin());
}

void Descriptor::set_block(const Block& block, std::size_t data_bytes) {
  segment = block.segment->number;
  offset = block.offset;
  use = block.use;
  bytes = data_bytes;
}

std::optional<TensorMeta> Descriptor::meta() const {
  if (dtype > static_cast<std::uint8_t>(DType::boolean) ||
      layout > static_cast<std::uint8_t>(Layout::nchw16c) || rank > Shape::max_rank)
    return std::nullopt;
  try {
    TensorMeta meta{Shape(std::span(dims.data(), rank)), static_cast<DType>(dtype),
                    static_cast<Layout>(layout), Device{}};
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 8;
    return meta.shape.element_count() > most ? std::nullopt : std::optional(meta);
  } catch (const Error&) {  // negative sizes, or too many elements
    return std::nullopt;
  }
}

}  // namespace troupe::transport
