#pragma once
// Files of torch.save for tests, whose pickles may lie.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/unit/runtime/file/zip_text.h"

namespace troupe::test {

/// Opcodes of protocol 2.
inline std::string pickled(const std::string& text) {
  return "X" + zip_number(text.size(), 4) + text;
}
inline std::string pickled(std::int64_t number) {
  return "\x8a\x08" + zip_number(static_cast<std::uint64_t>(number), 8);
}
inline std::string pickled(const std::vector<std::int64_t>& numbers) {
  std::string text = "(";
  for (const std::int64_t number : numbers) text += pickled(number);
  return text + "t";
}

/// A tensor in a pickle, by default of two elements.
struct PickledTensor {
  std::string key = "0", storage = "torch\nFloatStorage";
  std::int64_t count = 2, offset = 0;
  std::vector<std::int64_t> shape = {2}, strides = {1};

  std::string text() const {
    return "ctorch._utils\n_rebuild_tensor_v2\n((" + pickled("storage") + "c" + storage + "\n" +
           pickled(key) + pickled("cpu") + pickled(count) + "tQ" + pickled(offset) +
           pickled(shape) + pickled(strides) + "\x89}tR";
  }
};

/// A dictionary of values that are opcodes.
inline std::string pickled_dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string text = "}(";
  for (const auto& [key, value] : items) text += pickled(key) + value;
  return text + "u";
}

/// A file whose pickle makes a value, with the storage "0" of eight bytes.
inline std::string torch_file_of(const std::string& value, std::vector<MadeMember> others = {}) {
  std::vector<MadeMember> members = {{"f/data.pkl", "\x80\x02" + value + "."},
                                     {"f/data/0", std::string("\0\0\0\x3f\0\0\xc0\x3f", 8)}};
  members.insert(members.end(), others.begin(), others.end());
  return zip_of(members);
}

}  // namespace troupe::test
