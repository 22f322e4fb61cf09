#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ops/nn/state.h"
#include "ops/tape.h"

namespace troupe::nn {

/// A part of a model: it declares parameters and buffers, and records its operations on a tape.
/// Modules hold no weights. After `declare` a module knows the indices of its parameters in the
/// Pass. One actor uses a module at a time.
class Module {
 public:
  explicit Module(std::string path) : path_(std::move(path)) {}
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Dotted path from the model's root, the prefix of its parameters' names ("block1.layer1").
  const std::string& path() const { return path_; }

  /// Adds the parameters and buffers of this module to `spec`. What it stores of the places there
  /// is replaced by a later call: a model is also asked for its parameters before it runs.
  virtual void declare(StateSpec& spec);
  /// Records its operations on the tape.
  virtual Value forward(Tape& tape, Value x) = 0;
  /// Whether only convolutions read x: it may then come in the layout and type that they would
  /// convert it to. A class of your own whose forward() also reads x elsewhere returns false.
  virtual bool begins_with_convolution() const { return false; }

 protected:
  /// Makes a child with the path "<this path>.<name>"; children are declared in the order made.
  template <class M, class... Args>
  M& child(std::string_view name, Args&&... args) {
    auto made =
        std::make_unique<M>(path_.empty() ? std::string(name) : path_ + "." + std::string(name),
                            std::forward<Args>(args)...);
    M& reference = *made;
    children_.push_back(std::move(made));
    return reference;
  }

 private:
  std::string path_;
  std::vector<std::unique_ptr<Module>> children_;
};

}  // namespace troupe::nn
