#pragma once
// Inside the transports: a TensorMeta in the fixed-size messages of shared memory and Gloo.

#include <algorithm>
#include <limits>
#include <optional>
#include <span>

#include "runtime/error.h"
#include "runtime/transport/tensor_meta.h"

namespace troupe::transport {

/// Fills in a message's dtype, layout, rank and dims.
template <class Message>
void describe(const TensorMeta& meta, Message& message) {
  message.dtype = static_cast<std::uint8_t>(meta.dtype);
  message.layout = static_cast<std::uint8_t>(meta.layout);
  message.rank = static_cast<std::uint8_t>(meta.shape.rank());
  std::copy(meta.shape.dims().begin(), meta.shape.dims().end(), message.dims.begin());
}

/// The description of a tensor in a message. Throws if no tensor can have it.
template <class Message>
TensorMeta described(const Message& message) {
  const bool known = message.dtype <= static_cast<std::uint8_t>(DType::boolean) &&
                     message.layout <= static_cast<std::uint8_t>(Layout::nchw16c) &&
                     message.rank <= Shape::max_rank;
  if (!known) throw Error(ErrorCode::peer_lost, "a tensor of no known type, layout or rank");
  const TensorMeta meta{Shape(std::span(message.dims.data(), message.rank)),
                        static_cast<DType>(message.dtype), static_cast<Layout>(message.layout)};
  if (meta.shape.element_count() > std::numeric_limits<std::int64_t>::max() / 8)
    throw Error(ErrorCode::peer_lost, "a tensor larger than all memory");
  return meta;
}

}  // namespace troupe::transport
