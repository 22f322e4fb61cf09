#pragma once

namespace troupe::graph {

/// A visitor of a variant that is made of lambdas: std::visit(Overloaded{…}, node.operation).
template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace troupe::graph
