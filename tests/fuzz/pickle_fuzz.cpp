// Pickles: whatever the bytes, values or an Error; and arrays have the size that they state.

#include <cstdint>
#include <cstdlib>

#include "actors/data/cifar_batch.h"
#include "runtime/error.h"
#include "runtime/file/pickle.h"

namespace {

using namespace troupe;

std::size_t element_bytes(const PickleArray& array) {
  return static_cast<std::size_t>(array.type.name[1] - '0');
}

/// Looks at every value of a list or dictionary.
void check(const PickleValue& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) (void)std::string(*text);
  const auto* array = std::get_if<PickleArray*>(&value);
  if (array == nullptr || (*array)->type.name.empty()) return;
  const auto elements = static_cast<std::size_t>((*array)->shape.element_count());
  if ((*array)->data.size() != elements * element_bytes(**array)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const Pickle pickle(bytes, "input");
    check(pickle.value());
    if (const auto* list = std::get_if<PickleList*>(&pickle.value()))
      for (const PickleValue& item : (*list)->items) check(item);
    if (const auto* dict = std::get_if<PickleDict*>(&pickle.value()))
      for (const auto& [key, item] : (*dict)->items) check(item);
  } catch (const Error&) {
  }
  try {
    const CifarForm form{.files = {}, .is_pickle = true, .labels_key = "labels"};
    const CifarBatch batch({"cifar10", 10, {}}, form, bytes, "input");
    std::vector<std::byte> pixels(batch.labels().size() * cifar_pixels);
    batch.copy_pixels(pixels);
  } catch (const Error&) {
  }
  return 0;
}
