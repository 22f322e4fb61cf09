#pragma once
// Images of a data set in the memory of the device that computes.

#include <array>
#include <mutex>
#include <string_view>

#include "actors/data/augment.h"
#include "actors/data/dataset.h"
#include "actors/data/mix.h"
#include "runtime/device/device_stream.h"

namespace troupe {

/// Throws Error{bad_options} unless loaders can take samples from images that lie on a device:
/// images of u8 that are not mixed, and change by flip, vertical_flip and crop only.
void check_resident(const TransformOptions& transform, const MixOptions& mix,
                    const SampleSpec& samples, std::string_view dataset);
/// The same, and unless the data set holds its images in memory. May wait for them.
void check_resident(const TransformOptions& transform, const MixOptions& mix,
                    const Dataset& dataset);

/// The images of each split on one device, for all loaders of a process. A split is copied when a
/// loader first asks for it, and stays as long as this object. Thread-safe.
class ResidentImages {
 public:
  /// A split on the stream's device. `images`, all of them in the CPU's memory, are read if they
  /// were not copied yet. Work that is given to the stream from now on comes after the copy, for
  /// which the caller does not wait. Throws OutOfMemory with a remedy.
  Tensor on_device(const Stream& stream, Split split, const Tensor& images);

 private:
  struct Copy {
    Tensor images;
    WorkPtr copied;  ///< null on a device without streams
  };
  std::mutex mutex_;
  std::array<Copy, 2> copies_;  ///< by split
};

}  // namespace troupe
