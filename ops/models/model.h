#pragma once
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/nn/module.h"
#include "runtime/options/definition.h"

namespace troupe {

/// A model as an ordered list of blocks. Each stage of a pipeline takes consecutive blocks.
/// Building a model allocates no weights, so each stage builds all blocks and keeps its own. One
/// thread uses a model at a time.
struct Model {
  std::string name;
  std::vector<std::unique_ptr<nn::Module>> blocks;
  std::vector<std::string> notes = {};  ///< what its user should know, one sentence each

  /// Appends a block that is constructed from its path and options.
  template <class M, class... Args>
  M& add(std::string path, Args&&... args) {
    auto made = std::make_unique<M>(std::move(path), std::forward<Args>(args)...);
    M& reference = *made;
    blocks.push_back(std::move(made));
    return reference;
  }
};

/// The names of all parameters, as in PyTorch's state_dict.
std::vector<std::string> parameter_names(const Model& model);

/// The first block with a parameter that is trained: neither the model nor `freezes` (if given)
/// freezes it. The number of blocks if there is none. What comes before it needs no gradients.
std::size_t first_trained_block(const Model& model, const Freezes& freezes);

/// The samples that a model is built for. A data set describes them.
struct SampleSpec {
  Shape shape;               ///< of one sample, without the batch axis
  DType dtype = DType::f32;  ///< of the samples; u8 stands for pixels, which models get normalised
  std::int64_t classes = 0;  ///< targets of i64 are in [0, classes)
  Shape target_shape = {};   ///< of one sample's target; a number by default
  DType target_dtype = DType::i64;
};

/// Whether a data set's elements of this type are numbers, not pixels or indices: f32 or f64.
bool is_number(DType dtype);

/// The type of a batch's samples: those of u8 are normalised to `precision`, those of f32 and f64
/// converted, others stay.
DType batch_type(const SampleSpec& samples, DType precision);

/// A struct that describes a model: its members are the model's options, `make` builds it. It may
/// also have `OptionFields options()`, which declares the members with key, range and text,
/// `std::optional<std::int64_t> outputs() const`, the number of its outputs, and a member `file`,
/// the path that it is read from.
/// `ops/models/mlp.h` is a short example.
template <class M>
concept ModelDefinition = Named<M> && requires(const M& definition, const SampleSpec& samples) {
  { definition.make(samples) } -> std::same_as<Model>;
};

/// A model that can be built any number of times, for samples of any data set. The library's models
/// and a program's own ones are given to pipelines in this form. A value: copies are independent.
class ModelSource : public Definition {
 public:
  static constexpr std::string_view setting = "Model::name";

  template <ModelDefinition M>
  ModelSource(M definition)  // implicit: options take `.model = Mlp{.widths = {64}}`
      : Definition(std::move(definition)),
        make_([](const ModelSource& self, const SampleSpec& samples) {
          return self.as<M>().make(samples);
        }) {
    if constexpr (requires(const M& m) { m.outputs(); })
      outputs_ = [](const ModelSource& self) { return self.as<M>().outputs(); };
    if constexpr (requires(const M& m) { std::filesystem::path(m.file); })
      file_ = [](const ModelSource& self) { return std::filesystem::path(self.as<M>().file); };
  }

  /// For samples of a data set, to compute in `precision`: pixels and floating-point numbers reach
  /// the model with this type. From any thread. Throws Error{bad_options} for options outside their
  /// declared ranges and for samples that the model cannot take.
  Model make(SampleSpec samples, DType precision = DType::f32) const;
  /// What the definition's `outputs()` returns, if it has that; else the value of the option
  /// `model.classes`; nothing for a model without either.
  std::optional<std::int64_t> outputs() const;
  /// The file that the model is read from; empty for a model of code.
  std::filesystem::path file() const { return file_ ? file_(*this) : std::filesystem::path(); }

 private:
  Model (*make_)(const ModelSource& self, const SampleSpec& samples);
  std::optional<std::int64_t> (*outputs_)(const ModelSource& self) = nullptr;
  std::filesystem::path (*file_)(const ModelSource& self) = nullptr;
};

}  // namespace troupe
