#include "apps/options/precision_field.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "actors/precision.h"
#include "runtime/error.h"

namespace troupe {
namespace {

/// What documents and checkpoints of earlier versions call a precision.
constexpr std::pair<std::string_view, std::string_view> former_names[] = {{"f32", "32-true"},
                                                                          {"f64", "64-true"}};

/// What PyTorch, Lightning, accelerate and DeepSpeed call precisions that have another name here,
/// or that there are not.
struct Missing {
  std::vector<std::string_view> names;
  std::string_view remedy;
};
const std::vector<Missing>& missing() {
  static const std::vector<Missing> all{
      {{"bf16", "bfloat16"}, "did you mean bf16-mixed?"},
      {{"bf16-true"}, "did you mean bf16-mixed? Weights in bf16 would lose small updates"},
      {{"16", "f16", "fp16", "float16", "half", "16-mixed", "16-true"},
       "Troupe has no kernels for it; write bf16-mixed"},
      {{"tf32", "tensorfloat32", "high", "medium"},
       "Troupe has no kernels for it; write 32-true or bf16-mixed"},
      {{"fp8", "transformer-engine", "transformer-engine-float16"},
       "Troupe has no kernels for it; write bf16-mixed"},
      {{"32", "fp32", "float32", "float", "highest", "full", "no"}, "did you mean 32-true?"},
      {{"64", "fp64", "float64", "double"}, "did you mean 64-true?"}};
  return all;
}

}  // namespace

OptionField precision_field(PipelineOptions& options) {
  OptionField result = field(
      "precision",
      Converted<std::string>{
          [&options] {
            return std::string(name_of(Precision{options.dtype, options.stream.products}));
          },
          [&options](const std::string& name) {
            const Precision chosen = detail::choice_of<Precision>(precisions, name);
            options.dtype = chosen.dtype;
            options.stream.products = chosen.products;
          }},
      "arithmetic; bf16-mixed: convolutions and linear layers multiply in bf16, the rest is f32",
      {.choices = detail::choices_of<Precision>(precisions),
       .synonyms = {"dtype", "base_precision", "mixed_precision", "matmul_precision",
                    "float32_matmul_precision", "allow_tf32", "tf32", "fp16", "bf16", "amp"},
       .setting = "PipelineOptions::dtype"});
  result.read = [read = result.read, type = result.type](OptionTree tree) {
    for (const auto& [former, name] : former_names)
      if (tree.scalar == former) tree.scalar = name;
    for (const Missing& some : missing())
      if (std::ranges::count(some.names, tree.scalar) > 0)
        throw Error(
            ErrorCode::bad_options,
            fmt::format("{}: precision is {}; it must be {}", tree.where, tree.scalar, type),
            std::string(some.remedy));
    read(tree);
  };
  return result;
}

}  // namespace troupe
