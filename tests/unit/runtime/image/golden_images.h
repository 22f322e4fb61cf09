#pragma once
// The images of tests/golden/make_images.py, and what Pillow and torchvision made of them.

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/file/safetensors.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe::test {

inline const std::filesystem::path golden_images = TROUPE_SOURCE_DIR "/tests/golden/images";

inline SafetensorsFile expected_images() {
  return SafetensorsFile::open(TROUPE_SOURCE_DIR "/tests/golden/images.safetensors");
}

inline std::vector<int> values_of(const Tensor& tensor) {
  const auto bytes = tensor.elements<std::uint8_t>();
  return {bytes.begin(), bytes.end()};
}

}  // namespace troupe::test
