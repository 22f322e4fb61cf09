#pragma once
#include <string>
#include <string_view>

#include "ops/graph/graph.h"

namespace troupe::graph {

/// A size as PyTorch writes it, such as "Mul(Integer(4), Symbol('s77', integer=True))", where
/// `batch` is the name of the symbol for the number of samples. Throws Error{bad_file} for other
/// symbols, for functions other than sums and products, and for results beyond 64 bits; `where`
/// names the place.
Size size_of_expression(std::string_view text, std::string_view batch, const std::string& where);

/// The symbol of an expression that is one symbol; empty for other expressions.
std::string symbol_of(std::string_view text);

}  // namespace troupe::graph
