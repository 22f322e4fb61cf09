#include "runtime/options/definition.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe {

void Definition::check_options() const {
  Definition copy = *this;  // fields are bound to variables
  check_fields(copy.options());
}

void detail::refuse_unknown(std::string_view setting, std::string_view name,
                            const std::vector<std::string_view>& known) {
  throw Error(ErrorCode::bad_options, fmt::format("`{}` is '{}'", setting, name),
              did_you_mean(name, known, fmt::format("it can be {}", fmt::join(known, ", "))));
}

}  // namespace troupe
