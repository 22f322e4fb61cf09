#pragma once
#include <string_view>
#include <utility>

#include "runtime/tensor/dtype.h"

namespace troupe {

/// The arithmetic of a run.
struct Precision {
  DType dtype = DType::f32;     ///< of weights, activations, norms, losses and optimizer
  DType products = DType::f32;  ///< as in Stream

  bool operator==(const Precision&) const = default;
};

/// By the names that PyTorch Lightning has for them.
inline constexpr std::pair<std::string_view, Precision> precisions[] = {
    {"32-true", {DType::f32, DType::f32}},
    {"64-true", {DType::f64, DType::f32}},
    {"bf16-mixed", {DType::f32, DType::bf16}},
    {"16-mixed", {DType::f32, DType::f16}}};

/// The name of a precision; empty for a combination that has none.
constexpr std::string_view name_of(const Precision& precision) {
  for (const auto& [name, value] : precisions)
    if (value == precision) return name;
  return {};
}

/// How f32 is multiplied (Stream::conv_tf32, Stream::matmul_tf32), by PyTorch's names.
inline constexpr std::pair<std::string_view, bool> f32_products[] = {{"ieee", false},
                                                                     {"tf32", true}};

}  // namespace troupe
