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

/// What PyTorch, Lightning, accelerate and DeepSpeed call values that have another name here, or
/// that there are not.
struct Missing {
  std::vector<std::string_view> names;
  std::string_view remedy;
};
const std::vector<Missing>& missing_precisions() {
  static const std::vector<Missing> all{
      {{"bf16", "bfloat16"}, "did you mean bf16-mixed?"},
      {{"bf16-true"}, "did you mean bf16-mixed? Weights in bf16 would lose small updates"},
      {{"16", "f16", "fp16", "float16", "half", "fp16-mixed", "f16-mixed", "amp"},
       "did you mean 16-mixed?"},
      {{"mixed"}, "write bf16-mixed or 16-mixed"},
      {{"16-true"}, "did you mean 16-mixed? Weights in f16 would lose small updates"},
      {{"tf32", "tensorfloat32", "high", "medium"},
       "write 32-true, and tf32 as matmul_precision and conv_precision"},
      {{"fp8", "transformer-engine", "transformer-engine-float16"},
       "Troupe has no kernels for it; write bf16-mixed"},
      {{"32", "fp32", "float32", "float", "highest", "full", "no"}, "did you mean 32-true?"},
      {{"64", "fp64", "float64", "double"}, "did you mean 64-true?"}};
  return all;
}
const std::vector<Missing>& missing_roundings() {
  static const std::vector<Missing> all{
      {{"high", "true", "tensorfloat32"}, "did you mean tf32?"},
      {{"medium", "bf16"}, "write tf32, or precision: bf16-mixed"},
      {{"highest", "false", "none", "fp32", "float32"}, "did you mean ieee?"}};
  return all;
}

void refuse(const OptionField& field, const OptionTree& tree, const std::vector<Missing>& missing) {
  for (const Missing& some : missing)
    if (std::ranges::count(some.names, tree.scalar) > 0)
      throw Error(ErrorCode::bad_options,
                  fmt::format("{}: {} is {}; it must be {}", tree.where, field.path, tree.scalar,
                              field.type),
                  std::string(some.remedy));
}

OptionField precision_field(PipelineOptions& options) {
  OptionField result = field(
      "precision",
      Converted<std::string>{
          [&options] {
            return std::string(name_of(Precision{options.dtype, options.stream.products}));
          },
          [&options](const std::string& name) {
            const auto chosen = detail::choice_of<Precision>(precisions, name);
            options.dtype = chosen.dtype;
            options.stream.products = chosen.products;
          }},
      "arithmetic; bf16-mixed, 16-mixed: convolutions and linear layers multiply in bf16 or f16, "
      "sums and weights are f32; bf16-mixed needs a GPU (A100 or later), AVX-512 BF16 or AMX, "
      "16-mixed a GPU",
      {.choices = detail::choices_of<Precision>(precisions),
       .synonyms = {"dtype", "base_precision", "mixed_precision", "fp16", "bf16", "amp"},
       .setting = "PipelineOptions::dtype"});
  result.read = [field = result](OptionTree tree) {
    for (const auto& [former, name] : former_names)
      if (tree.scalar == former) tree.scalar = name;
    refuse(field, tree, missing_precisions());
    field.read(tree);
  };
  return result;
}

OptionField rounding_field(std::string path, bool& tf32, std::string help, FieldLimits limits) {
  OptionField result =
      choice_field(std::move(path), tf32, f32_products, std::move(help), std::move(limits));
  result.read = [field = result](const OptionTree& tree) {
    refuse(field, tree, missing_roundings());
    field.read(tree);
  };
  return result;
}

}  // namespace

OptionFields precision_fields(PipelineOptions& options) {
  constexpr std::string_view both = "set matmul_precision and conv_precision to tf32";
  OptionFields fields{precision_field(options)};
  fields.push_back(
      rounding_field("matmul_precision", options.stream.matmul_tf32,
                     "precision of linear layers and matmul in f32; tf32: a GPU may round their "
                     "inputs to TF32 and use tensor cores",
                     {.synonyms = {"float32_matmul_precision", "matmul_allow_tf32"},
                      .hints = {{"allow_tf32", both}, {"tf32", both}, {"fp32_precision", both}},
                      .setting = "Stream::matmul_tf32"}));
  fields.push_back(rounding_field(
      "conv_precision", options.stream.conv_tf32,
      "precision of convolutions in f32; tf32: a GPU may round their inputs to TF32 and use "
      "tensor cores",
      {.synonyms = {"cudnn_allow_tf32", "convolution_precision"}, .setting = "Stream::conv_tf32"}));
  return fields;
}

}  // namespace troupe
