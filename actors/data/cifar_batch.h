#pragma once
// A file of CIFAR: labels and pixels of some samples.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/data/cifar_files.h"

namespace troupe {

inline constexpr std::size_t cifar_pixels = std::size_t{3} * 32 * 32;

/// The samples in a file: its labels, and a view of its pixels.
class CifarBatch {
 public:
  /// `bytes` must stay alive. Throws Error (bad_file), which names `origin`, for lengths that do
  /// not fit and for labels outside [0, classes).
  CifarBatch(const CifarKind& kind, const CifarForm& form, std::span<const std::byte> bytes,
             const std::string& origin);

  const std::vector<std::int64_t>& labels() const { return labels_; }
  /// Writes the pixels of the first samples, as many as `out` holds: channels, rows, columns.
  void copy_pixels(std::span<std::byte> out) const;

 private:
  void read_records(const CifarForm& form, std::span<const std::byte> bytes,
                    const std::string& origin);
  void read_pickle(const CifarForm& form, std::span<const std::byte> bytes,
                   const std::string& origin);

  std::vector<std::int64_t> labels_;
  const std::byte* pixels_ =
      nullptr;  // pixel j of sample i: [i * sample_stride + j * pixel_stride]
  std::size_t sample_stride_ = cifar_pixels, pixel_stride_ = 1;
  std::shared_ptr<const void> owner_;  // of the pixels, if not `bytes`
};

}  // namespace troupe
