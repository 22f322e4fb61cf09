#include "runtime/file/pickle.h"

#include "runtime/file/pickle_machine.h"

namespace troupe {

const PickleValue* PickleDict::find(std::string_view key) const {
  for (const auto& [name, value] : items)
    if (const auto* text = std::get_if<std::string_view>(&name); text != nullptr && *text == key)
      return &value;
  return nullptr;
}

Pickle::Pickle(std::span<const std::byte> bytes, const std::string& origin, PickleObjects objects) {
  if (objects == PickleObjects::numpy)
    pickle_objects::read_numpy(bytes, origin, *this);
  else
    pickle_objects::read_named(bytes, origin, *this);
}

}  // namespace troupe
