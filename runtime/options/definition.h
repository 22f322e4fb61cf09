#pragma once
// What options choose by name: a model, a data set or an optimizer. Each is a struct of any type
// with a name, members that are its options, and the functions of its kind.

#include <any>
#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/options/field.h"

namespace troupe {

/// A struct with a static `name`. It may also have `OptionFields options()`, which declares its
/// members with key, range and text.
template <class D>
concept Named = requires {
  { D::name } -> std::convertible_to<std::string_view>;
}
&&std::copy_constructible<D>;

/// Holds such a struct. A value: copies are independent. Each kind derives from it and adds the
/// functions of the kind.
class Definition {
 public:
  std::string_view name() const { return name_; }
  /// The declared options, bound to the members of this object; valid until it is assigned to,
  /// moved or destroyed.
  OptionFields options() { return options_(held_); }

 protected:
  template <Named D>
  explicit Definition(D definition)
      : held_(std::move(definition)), name_(D::name), options_([](std::any& held) -> OptionFields {
          D& own = *std::any_cast<D>(&held);
          if constexpr (requires { own.options(); }) return own.options();
          return {};
        }) {}
  template <class D>
  const D& as() const {
    return *std::any_cast<D>(&held_);
  }
  /// Throws Error{bad_options} for a member outside its declared range.
  void check_options() const;

 private:
  std::any held_;
  std::string_view name_;
  OptionFields (*options_)(std::any&);
};

namespace detail {
[[noreturn]] void refuse_unknown(std::string_view setting, std::string_view name,
                                 const std::vector<std::string_view>& known);
}  // namespace detail

/// The definition of that name. Throws Error{bad_options} with the known names.
template <std::derived_from<Definition> D>
const D& find_definition(const std::vector<D>& all, std::string_view name) {
  std::vector<std::string_view> known;
  for (const D& definition : all) {
    if (definition.name() == name) return definition;
    known.push_back(definition.name());
  }
  detail::refuse_unknown(D::setting, name, known);
}

}  // namespace troupe
