#pragma once
// Constants in the nodes of a .pt2. What depends on constants alone is computed in f64, once, when
// the file is read.

#include <string_view>

#include "ops/graph/pt2_node.h"

namespace troupe::graph {

/// Whether an argument is a number or a constant.
bool is_known(const Pt2Node& node, std::string_view name);
/// Its numbers. Throws LacksOperator for other values.
Tensor reals_of(const Pt2Node& node, std::string_view name);

/// The numbers of a constant, and such numbers as f64, i64 or truth values.
Tensor as_reals(const Tensor& constant);
Tensor as_type(const Tensor& numbers, DType dtype);

using PairFunction = double (*)(double a, double b);
/// The function of each element of both, which are broadcast.
Tensor of_pairs(const Pt2Node& node, const Tensor& a, const Tensor& b, PairFunction function);

/// Gives a constant of the type that the file states.
void give_constant(const Pt2Node& node, const Tensor& numbers);
/// Gives the argument `self`, a constant, in the type that the file states.
void convert_constant(const Pt2Node& node);

/// Gives self ** exponent, both known.
void give_power(const Pt2Node& node);

/// Gives sqrt(self), which is known, or its reciprocal.
void give_root(const Pt2Node& node, bool reciprocal);

/// Whether the elements of the result are those of the inputs.
bool moves_elements(const Operator& operation);
/// The constant whose numbers a value repeats for each sample, or the value itself.
ValueId unexpanded(const Pt2Node& node, ValueId value);

/// The result of an operator that reads constants alone, as a new constant. Absent: it reads other
/// values, or its result is large and only repeats numbers.
ValueId fold(const Pt2Node& node, const Operator& operation, const std::vector<ValueId>& inputs);

/// An argument, which is a constant of truth values, as numbers to add: minus infinity where it is
/// `hidden`, else 0.
ValueId additive_mask(const Pt2Node& node, std::string_view mask, bool hidden);

}  // namespace troupe::graph
