#pragma once
// One node of a .pt2: an operator of PyTorch with its arguments.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/graph/pt2_context.h"

namespace troupe::graph {

/// Arguments by PyTorch's names; absent ones have the defaults that the caller gives. Throws
/// Error{bad_file} for damage, and LacksOperator for an argument of another kind than is asked for.
class Pt2Node {
 public:
  Pt2Node(Pt2Context& context, const JsonAccess& json);

  const std::string& target() const { return target_; }  ///< "conv2d.default"
  bool in_place() const { return in_place_; }            ///< the file's operator was "relu_"
  const Origin& origin() const { return origin_; }
  const JsonAccess& json() const { return json_; }
  Pt2Context& context() const { return context_; }
  /// Of the tensors that it returns; those of a list are in its order.
  const std::vector<std::string>& outputs() const { return outputs_; }
  bool returns_sizes() const { return returns_sizes_; }

  bool has(std::string_view name) const;  ///< it is there, and not None
  bool is_tensor(std::string_view name) const;
  ValueId value(std::string_view name) const;
  ValueId value_or_mask(std::string_view name) const;   ///< also a key of Pt2Context::masks
  ValueId optional_value(std::string_view name) const;  ///< absent: an absent id
  std::vector<ValueId> values(std::string_view name) const;
  std::vector<ValueId> optional_values(std::string_view name) const;  ///< None: absent ids
  ValueId buffer(std::string_view name) const;
  /// The name of a tensor.
  const std::string& name_of(std::string_view name) const;

  std::int64_t integer(std::string_view name, std::optional<std::int64_t> otherwise = {}) const;
  double number(std::string_view name, std::optional<double> otherwise = {}) const;
  bool boolean(std::string_view name, bool otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::vector<std::int64_t> integers(std::string_view name,
                                     std::vector<std::int64_t> otherwise) const;
  Size size(std::string_view name) const;
  Sizes sizes(std::string_view name) const;

  /// An axis of a tensor of so many, counted from the front.
  std::size_t axis(std::string_view name, std::int64_t otherwise, std::size_t rank) const;

  /// Makes `result` its only output.
  void give(ValueId result) const;
  void give_all(const std::vector<ValueId>& results) const;
  /// As give, for an operator whose result shares the memory of its argument `of`.
  void give_view(ValueId result, std::string_view of) const;
  ValueId add(Operator operation, std::vector<ValueId> inputs) const;
  /// x itself where the shape is the same; the shape may have one -1.
  ValueId reshaped(ValueId x, const Sizes& to) const;
  /// A copy: adding a value moves the others.
  Sizes shape(ValueId id) const { return context_.builder.shape(id); }

 private:
  const JsonAccess* find(std::string_view name) const;
  const JsonAccess& at(std::string_view name) const;
  JsonAccess at(std::string_view name, const char* kind) const;

  Pt2Context& context_;
  JsonAccess json_;
  std::string target_;
  bool in_place_ = false;
  bool returns_sizes_ = false;
  Origin origin_;
  std::vector<std::pair<std::string, JsonAccess>> arguments_;
  std::vector<std::string> outputs_;
};

}  // namespace troupe::graph
