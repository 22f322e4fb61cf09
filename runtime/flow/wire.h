#pragma once
// Messages between processes as bytes. A type lists its members once; a WireWriter and a WireReader
// visit the same list:
//
//   struct Activation {
//     Tensor tensor;
//     static void members(auto& self, auto& visit) { visit(self.tensor); }
//   };
//
// `members` must visit the members themselves, not copies: a reader fills in tensors later.
//
// Numbers keep their size and the byte order of the machine, since all processes run the same
// program. Bytes of another process are not trusted: a reader checks each length and count against
// the bytes that are left, each enumeration and each bool against its range, and refuses bytes that
// are left over.

#include <bit>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "runtime/error.h"
#include "runtime/tensor/tensor.h"
#include "runtime/transport/tensor_meta.h"

namespace troupe {

/// Enumerations declare their largest value beside them, for readers of foreign bytes:
///
///     constexpr Purpose last_enumerator(Purpose) { return Purpose::evaluate; }
template <class E>
concept BoundedEnum = std::is_enum_v<E> && requires(E value) {
  { last_enumerator(value) } -> std::same_as<E>;
};

constexpr ErrorCode last_enumerator(ErrorCode) { return ErrorCode::internal; }

/// Appends values to `bytes`. A tensor leaves its shape, element type and layout there; its handle
/// goes to `tensors`, whose elements travel by a transport.
class WireWriter {
 public:
  std::string bytes;
  std::vector<Tensor> tensors;  ///< the defined ones, in the order of the members

  template <class N>
  requires std::is_arithmetic_v<N>
  void operator()(const N& number) { append(&number, sizeof number); }
  template <BoundedEnum E>
  void operator()(const E& value) {
    (*this)(static_cast<std::underlying_type_t<E>>(value));
  }
  template <class Rep, class Period>
  void operator()(const std::chrono::duration<Rep, Period>& time) {
    (*this)(time.count());
  }
  void operator()(const std::string& text);
  void operator()(const Tensor& tensor);
  void operator()(const Error& error);
  template <class T>
  void operator()(const std::optional<T>& value) {
    (*this)(value.has_value());
    if (value) (*this)(*value);
  }
  template <class T>
  void operator()(const std::vector<T>& list) {
    count(list.size());
    for (const T& item : list) (*this)(item);
  }
  template <class... Ts>
  void operator()(const std::variant<Ts...>& value) {
    static_assert(sizeof...(Ts) <= 256);
    (*this)(static_cast<std::uint8_t>(value.index()));
    std::visit(*this, value);
  }
  template <class T>
  requires requires(const T& value, WireWriter& visit) { T::members(value, visit); }
  void operator()(const T& value) { T::members(value, *this); }

 private:
  void append(const void* data, std::size_t size) {
    bytes.append(static_cast<const char*>(data), size);
  }
  void count(std::size_t items);
};

/// Reads what a WireWriter wrote, in the same order, and nothing beyond the end of the bytes.
/// Throws Error{bad_message} for all other bytes.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  /// A tensor whose elements come by a transport: assign it to `place` once it is here.
  struct ExpectedTensor {
    Tensor* place = nullptr;
    TensorMeta meta;
  };

  template <class N>
  requires std::is_arithmetic_v<N>
  void operator()(N& number) { std::memcpy(&number, take(sizeof number), sizeof number); }
  void operator()(bool& value);
  template <BoundedEnum E>
  void operator()(E& value) {
    std::underlying_type_t<E> number{};
    (*this)(number);
    if (number < 0 || number > static_cast<std::underlying_type_t<E>>(last_enumerator(value)))
      refuse_value(static_cast<std::int64_t>(number));
    value = static_cast<E>(number);
  }
  template <class Rep, class Period>
  void operator()(std::chrono::duration<Rep, Period>& time) {
    Rep ticks{};
    (*this)(ticks);
    time = std::chrono::duration<Rep, Period>(ticks);
  }
  void operator()(std::string& text);
  void operator()(Tensor& tensor);
  void operator()(Error& error);
  void operator()(std::optional<Error>& error);
  template <class T>
  void operator()(std::optional<T>& value) {
    bool has_value = false;
    (*this)(has_value);
    value.reset();
    if (has_value) (*this)(value.emplace());
  }
  template <class T>
  void operator()(std::vector<T>& list) {
    list.clear();
    list.resize(count());
    for (T& item : list) (*this)(item);
  }
  template <class... Ts>
  void operator()(std::variant<Ts...>& value) {
    std::uint8_t kind = 0;
    (*this)(kind);
    read_alternative<0>(value, kind);
  }
  template <class T>
  requires requires(T& value, WireReader& visit) { T::members(value, visit); }
  void operator()(T& value) { T::members(value, *this); }

  /// The tensors read so far, in order; undefined ones need no elements and are not among them.
  std::vector<ExpectedTensor> take_tensors() { return std::move(tensors_); }
  /// Throws if bytes are left over.
  void check_end() const;

 private:
  template <std::size_t I, class Variant>
  void read_alternative(Variant& value, std::size_t kind) {
    if constexpr (I == std::variant_size_v<Variant>) {
      refuse_value(static_cast<std::int64_t>(kind));
    } else if (kind == I) {
      (*this)(value.template emplace<I>());
    } else {
      read_alternative<I + 1>(value, kind);
    }
  }
  const char* take(std::size_t size);
  std::size_t count();  ///< of items that take at least a byte each
  Error read_error();
  [[noreturn]] static void refuse(const std::string& what);
  [[noreturn]] static void refuse_value(std::int64_t value);

  std::string_view rest_;
  std::vector<ExpectedTensor> tensors_;
};

static_assert(std::endian::native == std::endian::little, "processes exchange numbers as they are");

}  // namespace troupe
