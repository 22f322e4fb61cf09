#pragma once
#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/nn/module.h"
#include "runtime/options/field.h"

namespace troupe {

/// A model as an ordered list of blocks. Each stage of a pipeline takes consecutive blocks.
/// Building a model allocates no weights, so each stage builds all blocks and keeps its own. One
/// thread uses a model at a time.
struct Model {
  std::string name;
  std::vector<std::unique_ptr<nn::Module>> blocks;

  /// Appends a block that is constructed from its path and options.
  template <class M, class... Args>
  M& add(std::string path, Args&&... args) {
    auto made = std::make_unique<M>(std::move(path), std::forward<Args>(args)...);
    M& reference = *made;
    blocks.push_back(std::move(made));
    return reference;
  }
};

/// The samples that a model is built for. A data set describes them.
struct SampleSpec {
  Shape shape;               ///< of one sample, without the batch axis
  DType dtype = DType::f32;  ///< of the samples; u8 stands for pixels, which models get normalised
  std::int64_t classes = 0;  ///< targets are in [0, classes)
  Shape target_shape = {};   ///< of one sample's target; a number by default
  DType target_dtype = DType::i64;
};

/// A struct that describes a model: its members are the model's options, `make` builds it. It may
/// also have `OptionFields options()`, which declares the members with key, range and text.
/// `ops/models/mlp.h` is a short example.
template <class M>
concept ModelDefinition = requires(const M& definition, const SampleSpec& samples) {
  { M::name } -> std::convertible_to<std::string_view>;
  { definition.make(samples) } -> std::same_as<Model>;
};

/// A model that can be built any number of times, for samples of any data set. The library's models
/// and a program's own ones are given to pipelines in this form. A value: copies are independent.
class ModelSource {
 public:
  template <ModelDefinition M>
  ModelSource(M definition)  // implicit: options take `.model = Mlp{.widths = {64}}`
      : definition_(std::make_unique<Definition<M>>(std::move(definition))) {}
  ModelSource(const ModelSource& other) : definition_(other.definition_->clone()) {}
  ModelSource(ModelSource&&) = default;
  ModelSource& operator=(ModelSource other) {
    definition_ = std::move(other.definition_);
    return *this;
  }
  ~ModelSource() = default;

  std::string_view name() const { return definition_->name(); }
  /// The declared options, bound to the members of this object.
  OptionFields options() { return definition_->options(); }
  /// From any thread. Throws Error{bad_options} for options outside their declared ranges and for
  /// samples that the model cannot take.
  Model make(const SampleSpec& samples) const;

 private:
  struct Interface {
    virtual ~Interface() = default;
    virtual std::unique_ptr<Interface> clone() const = 0;
    virtual std::string_view name() const = 0;
    virtual OptionFields options() = 0;
    virtual Model make(const SampleSpec& samples) const = 0;
  };
  template <class M>
  struct Definition final : Interface {
    explicit Definition(M given) : definition(std::move(given)) {}
    std::unique_ptr<Interface> clone() const override {
      return std::make_unique<Definition>(definition);
    }
    std::string_view name() const override { return M::name; }
    OptionFields options() override {
      if constexpr (requires { definition.options(); }) return definition.options();
      return {};
    }
    Model make(const SampleSpec& samples) const override { return definition.make(samples); }
    M definition;
  };

  std::unique_ptr<Interface> definition_;
};

}  // namespace troupe
