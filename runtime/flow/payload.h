#pragma once
#include <memory>
#include <type_traits>

#include "runtime/flow/wire.h"

namespace troupe {

/// Serialises messages of one type for other processes. It is not used within a process, where a
/// message is a handle. Empty for a type that lists no members (runtime/flow/wire.h).
struct PayloadCodec {
  void (*write)(const void* message, WireWriter& writer) = nullptr;
  /// The message lacks the elements of its tensors: see WireReader::take_tensors.
  std::shared_ptr<const void> (*read)(WireReader& reader) = nullptr;
  explicit operator bool() const { return write != nullptr; }
};

/// The codec of a message type: a plain number, or a type that lists its members.
template <class T>
PayloadCodec payload_codec() {
  constexpr bool lists_members = requires(T & message, WireReader & visit) {
    T::members(message, visit);
  };
  if constexpr (lists_members || std::is_arithmetic_v<T>) {
    return {
        [](const void* message, WireWriter& writer) { writer(*static_cast<const T*>(message)); },
        [](WireReader& reader) -> std::shared_ptr<const void> {
          auto message = std::make_shared<T>();
          reader(*message);
          return message;
        }};
  } else {
    return {};
  }
}

}  // namespace troupe
