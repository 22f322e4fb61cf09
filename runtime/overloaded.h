#pragma once

namespace troupe {

/// A visitor of a variant that is made of lambdas: std::visit(Overloaded{…}, variant).
template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace troupe
