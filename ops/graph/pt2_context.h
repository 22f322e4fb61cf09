#pragma once
// What the operators of a .pt2 read and write while its graph is built.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ops/graph/builder.h"
#include "ops/graph/json_access.h"
#include "ops/graph/pt2_file.h"

namespace troupe::graph {

/// Thrown by an operator that Troupe cannot run; the reader lists it (Graph::lacking).
struct LacksOperator {
  std::string reason = {};  ///< empty: the operator as such
  std::string remedy = {};  ///< of Lacking
};

/// The remedy for operators that stop gradients.
inline constexpr const char* freeze_instead =
    "remove it, call requires_grad_(False) on the parameters before it, and export again";

/// Random numbers that a model draws itself: memory, then 1 with the probability `keep` and else 0,
/// then divided by it. Times a tensor they are a dropout; the graph has no value of them.
struct Pt2Mask {
  Sizes shape = {};
  bool drawn = false, scaled = false;
  double keep = 1.0;
};

/// A node that Troupe cannot run.
struct LeftOut {
  Lacking lacking;
  std::set<ValueId> inputs, outputs;
  bool writes_memory = false;  ///< so that others may read its result by other names
};

/// sqrt(mean(x * x) + epsilon) over the last axes, or its reciprocal.
struct RootMeanSquare {
  ValueId x;
  std::size_t axes = 0;
  double epsilon = 0.0;
  bool reciprocal = false;
};

/// A name whose memory is a part of that of another.
struct Pt2Part {
  std::string of;
  std::size_t axis = 0;
  std::int64_t start = 0, count = 0;
};

/// Values by the names of the file, and sizes by those of its symbols.
class Pt2Context {
 public:
  explicit Pt2Context(std::shared_ptr<const Pt2File> file);

  GraphBuilder builder;
  std::map<ValueId, Pt2Mask> masks;             ///< by ids below those of values
  std::map<std::string, RootMeanSquare> roots;  ///< by names; Troupe has no value of them
  std::map<std::string, Pt2Part> parts;         ///< slices, by their names
  std::map<std::pair<ValueId, bool>, ValueId> additive_masks;  ///< see additive_mask

  /// The value that a name means now. Throws Error{bad_file} for unknown names, and LacksOperator
  /// for one whose memory was overwritten through a view.
  ValueId value(const JsonAccess& name);
  /// A running statistic.
  ValueId buffer(const JsonAccess& name);
  void name(const std::string& name, ValueId value) { names_[name] = value; }
  /// What an earlier node has made.
  const Value& made(const std::string& name) const { return builder.graph.value(names_.at(name)); }
  /// `output` shares the memory of `input`.
  void share(const std::string& input, const std::string& output);
  /// Whether a name's memory is that of a parameter, a buffer or a literal of the file.
  bool is_stored(const std::string& name) const;
  /// Whether it shares the memory of another name, which comes first.
  bool is_view(const std::string& name) const;
  /// An operator has overwritten the memory of `name` with `value`, which is also called `output`.
  void overwrite(const std::string& name, const std::string& output, ValueId value);

  /// The size that a symbol of the file means.
  Size symbol(const JsonAccess& name) const;
  /// A size as the file writes it: {"as_int": 3} or {"as_expr": …}.
  Size size(const JsonAccess& json) const;
  /// The shape and the type that the file states for a value.
  Sizes stated_shape(const std::string& name) const;
  DType stated_dtype(const std::string& name) const;

  /// Whether this is the name of a counter such as num_batches_tracked, which no node has read. If
  /// so, `output` is its name from now on, and no node can read it.
  bool counts_up(const std::string& name, const std::string& output);
  /// A new constant, widened.
  ValueId constant(std::string name, const Tensor& tensor);
  /// For a node that makes a constant. Throws LacksOperator once the nodes of the file ask for more
  /// than most_made_elements and the elements that the file has.
  void take_made(std::int64_t elements);
  /// For a node of the file that becomes several ones. Throws LacksOperator once these are too
  /// many.
  void take_nodes(std::int64_t count);
  bool can_make(std::int64_t elements) const { return elements <= made_left_; }

  /// `json` is the node; its outputs become values of which only type and shape are known. It is
  /// lacking unless the output of the graph does not depend on it.
  void leave_out(const JsonAccess& json, Lacking lacking, const std::vector<std::string>& outputs,
                 bool writes_memory);

  /// Reads the signature: parameters, buffers, literals, the input. Returns the output's name.
  std::string read_signature();
  /// Completes the graph when all nodes are there.
  void finish(const std::string& output);

 private:
  struct Entry {  ///< of the signature
    enum class Kind { parameter, buffer, literal };
    Kind kind = Kind::parameter;
    const Pt2Tensor* tensor = nullptr;
    bool persistent = true;
  };
  void read_input(const JsonAccess& spec);
  void add_entry(const std::string& kind, const JsonAccess& spec);
  void add_input(const std::string& name);
  const std::string& canonical(const Pt2Tensor& tensor) const;
  ValueId enter(const std::string& name, bool as_buffer);
  std::set<std::string> unread_parameters() const;
  void list_lacking();
  void forget_unread_constants();
  void add_counters();
  void add_weights();

  std::shared_ptr<const Pt2File> file_;
  JsonAccess graph_;
  std::string batch_symbol_;
  std::map<std::string, std::string> canonical_;  ///< the first name of each tensor, by elements
  std::map<std::string, Entry> entries_;          ///< by name in the graph
  std::vector<std::string> order_;                ///< of entries_ in the signature
  std::map<std::string, ValueId> names_;
  std::map<std::string, ValueId> by_key_;      ///< parameters and buffers, by state_dict key
  std::map<std::string, ValueId> stored_;      ///< constants of the file, by Pt2Tensor::elements
  std::map<std::string, std::string> memory_;  ///< which name's memory a name shares
  std::set<std::string> stale_;
  std::vector<LeftOut> left_out_;
  std::int64_t made_left_ = most_made_elements;
  std::int64_t nodes_left_ = 1 << 20;
  std::set<std::string> counters_;  ///< their names, also those after they were counted up
};

}  // namespace troupe::graph
