#pragma once
#include <cstring>
#include <string>
#include <vector>

namespace troupe::test {

/// A NumPy file of version 1.0, 2.0 or 3.0 with this dictionary, padded as numpy.save does.
inline std::string npy_file(const std::string& dictionary, const std::string& data,
                            char version = 1) {
  const std::size_t width = version == 1 ? 2 : 4;
  std::string header = dictionary;
  while ((8 + width + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string text = std::string("\x93NUMPY") + version + '\0';
  for (std::size_t i = 0; i < width; ++i) text += static_cast<char>(header.size() >> 8 * i & 0xff);
  return text + header + data;
}

/// numpy.save of `values` with this type ("<f4") and shape ("(2, 3)").
template <class T>
std::string npy_of(const std::string& type, const std::string& shape,
                   const std::vector<T>& values) {
  std::string data(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(data.data(), values.data(), data.size());
  return npy_file("{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }",
                  data);
}

}  // namespace troupe::test
