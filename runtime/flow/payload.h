#pragma once
// What a message is made of, so that it can leave the process. A message type lists its members:
//
//   struct Activation {
//     Tensor tensor;
//     static void members(auto& self, auto& visit) { visit(self.tensor); }
//   };
//
// Between actors of one process nothing of this runs: there a message is a handle.

#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/error.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

/// A message taken apart. Tensors stay handles; who carries them decides how their bytes travel.
struct Parts {
  std::vector<Tensor> tensors;
  std::vector<std::uint64_t> numbers;  ///< integers, and floating-point numbers by their bits
  std::vector<std::string> texts;
};

/// Both ways between a message and its parts. Empty functions where the type lists no members.
struct PayloadCodec {
  std::function<Parts(const void*)> take_apart;
  /// Throws Error{bad_message} when the parts are not those of the type.
  std::function<std::shared_ptr<const void>(Parts)> put_together;
  explicit operator bool() const { return static_cast<bool>(take_apart); }
};

namespace payload {

class Packer {
 public:
  explicit Packer(Parts& parts) : parts_(parts) {}
  void operator()(const Tensor& tensor) { parts_.tensors.push_back(tensor); }
  void operator()(const std::string& text) { parts_.texts.push_back(text); }
  template <class N>
  requires(std::is_arithmetic_v<N> || std::is_enum_v<N>) void operator()(const N& number) {
    if constexpr (std::is_floating_point_v<N>) {
      parts_.numbers.push_back(std::bit_cast<std::uint64_t>(static_cast<double>(number)));
    } else {
      parts_.numbers.push_back(static_cast<std::uint64_t>(number));
    }
  }
  template <class T>
  void operator()(const std::vector<T>& list) {
    parts_.numbers.push_back(list.size());
    for (const T& item : list) (*this)(item);
  }
  template <class T>
  requires requires(const T& value, Packer& visit) { T::members(value, visit); }
  void operator()(const T& value) { T::members(value, *this); }

 private:
  Parts& parts_;
};

class Unpacker {
 public:
  explicit Unpacker(Parts& parts) : parts_(parts) {}
  void operator()(Tensor& tensor) { tensor = std::move(next(parts_.tensors, tensors_)); }
  void operator()(std::string& text) { text = std::move(next(parts_.texts, texts_)); }
  template <class N>
  requires(std::is_arithmetic_v<N> || std::is_enum_v<N>) void operator()(N& number) {
    const std::uint64_t bits = next(parts_.numbers, numbers_);
    if constexpr (std::is_floating_point_v<N>) {
      number = static_cast<N>(std::bit_cast<double>(bits));
    } else {
      number = static_cast<N>(bits);
    }
  }
  template <class T>
  void operator()(std::vector<T>& list) {
    const std::uint64_t count = next(parts_.numbers, numbers_);
    // Every item takes something: a count beyond all that is left is a damaged message.
    if (count > left()) refuse();
    list.resize(count);
    for (T& item : list) (*this)(item);
  }
  template <class T>
  requires requires(T& value, Unpacker& visit) { T::members(value, visit); }
  void operator()(T& value) { T::members(value, *this); }
  void check_empty() const {
    if (left() != 0) refuse();
  }

 private:
  template <class T>
  T& next(std::vector<T>& list, std::size_t& position) {
    if (position == list.size()) refuse();
    return list[position++];
  }
  std::size_t left() const {
    return parts_.tensors.size() - tensors_ + parts_.texts.size() - texts_ + parts_.numbers.size() -
           numbers_;
  }
  [[noreturn]] static void refuse();

  Parts& parts_;
  std::size_t tensors_ = 0, numbers_ = 0, texts_ = 0;
};

/// A number is a message of its own.
template <class T>
concept IsNumber = std::is_arithmetic_v<T>;
template <class T>
concept HasMembers = requires(T& value, Unpacker& visit) {
  T::members(value, visit);
};

}  // namespace payload

/// The codec of a message type; empty if it lists no members.
template <class T>
PayloadCodec payload_codec() {
  if constexpr (payload::HasMembers<T> || payload::IsNumber<T>) {
    const auto visit_all = [](auto& message, auto& visit) {
      if constexpr (payload::IsNumber<T>) {
        visit(message);
      } else {
        T::members(message, visit);
      }
    };
    return {[visit_all](const void* message) {
              Parts parts;
              payload::Packer pack(parts);
              visit_all(*static_cast<const T*>(message), pack);
              return parts;
            },
            [visit_all](Parts parts) -> std::shared_ptr<const void> {
              auto message = std::make_shared<T>();
              payload::Unpacker unpack(parts);
              visit_all(*message, unpack);
              unpack.check_empty();
              return message;
            }};
  } else {
    return {};
  }
}

}  // namespace troupe
