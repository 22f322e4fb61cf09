#pragma once
#include <concepts>

namespace troupe {

/// A visitor of a variant that is made of lambdas: std::visit(Overloaded{…}, variant).
template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

/// For a lambda of several alternatives: `[](const OneOf<A, B> auto&) {…}`. Unlike `const auto&` it
/// does not take an alternative that is added to the variant later; that does not compile.
template <class T, class... All>
concept OneOf = (std::same_as<T, All> || ...);

}  // namespace troupe
