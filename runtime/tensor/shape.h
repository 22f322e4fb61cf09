#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace troupe {

/// The sizes of a tensor's axes, outermost first; at most six. Rank 0 is a scalar of one element.
class Shape {
 public:
  static constexpr int max_rank = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const std::int64_t> dims);  ///< throws on negative sizes or overflow

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return dims_[static_cast<std::size_t>(axis)]; }
  std::int64_t dim(int axis) const;  ///< negative axes count from the end; throws out of range
  std::int64_t element_count() const;
  std::span<const std::int64_t> dims() const {
    return {dims_.data(), static_cast<std::size_t>(rank_)};
  }
  /// The same shape with another size of the outermost axis.
  Shape with_outer(std::int64_t size) const;

  friend bool operator==(const Shape&, const Shape&) = default;
  /// Any order, for keys of maps. NOLINTNEXTLINE(modernize-use-nullptr): no pointer
  friend auto operator<=>(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, max_rank> dims_{};
  int rank_ = 0;
};

std::string to_string(const Shape& shape);  ///< "[64, 16, 28, 28]"

}  // namespace troupe
