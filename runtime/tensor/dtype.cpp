#include "runtime/tensor/dtype.h"

#include <array>

namespace troupe {
namespace {

struct Info {
  std::string_view name;
  std::size_t size;
  bool floating;
};
// In the order of the enumeration.
constexpr std::array<Info, 13> infos{{{"f32", 4, true},
                                      {"f64", 8, true},
                                      {"bf16", 2, true},
                                      {"f16", 2, true},
                                      {"i8", 1, false},
                                      {"i16", 2, false},
                                      {"i32", 4, false},
                                      {"i64", 8, false},
                                      {"u8", 1, false},
                                      {"u16", 2, false},
                                      {"u32", 4, false},
                                      {"u64", 8, false},
                                      {"bool", 1, false}}};

const Info& info(DType dtype) { return infos.at(static_cast<std::size_t>(dtype)); }

}  // namespace

std::size_t size_of(DType dtype) { return info(dtype).size; }
std::string_view name_of(DType dtype) { return info(dtype).name; }
bool is_floating(DType dtype) { return info(dtype).floating; }

std::optional<DType> find_dtype(std::string_view name) {
  for (std::size_t i = 0; i < infos.size(); ++i)
    if (infos[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace troupe
