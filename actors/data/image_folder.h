#pragma once
#include <filesystem>

#include "actors/data/dataset.h"

namespace troupe {

/// JPEG and PNG files of any size, one folder for each class: `path`/train/CLASS/… for training,
/// `path`/val/CLASS/… or else `path`/test/CLASS/… for testing. Without either, the test set is the
/// share `test_fraction` of the training images; without all three, these are `path`/CLASS/….
/// Other names of splits, such as `valid` or `train2017`, are refused; of val/ and test/, the
/// second is not read. Samples are RGB, [3, image_size, image_size].
///
/// Both splits are read as by torchvision's ImageFolder: classes are numbered in the order of their
/// names, and samples are in the order of the classes, folders and file names. Files with other
/// endings than .jpg, .jpeg and .png are left out, and so are hidden files and folders; formats
/// that torchvision would read besides are refused.
///
/// An image becomes a sample by torchvision's evaluation transform, Resize(resize) and
/// CenterCrop(image_size), or by a random resized crop in training. Opening lists the files; each
/// is read and decoded when its sample is wanted. The names of a million files take about 100 MB.
struct ImageFolder {
  static constexpr std::string_view name = "image_folder";
  /// Of ImageNet, as in torchvision's weights.
  static constexpr std::array usual_mean{0.485, 0.456, 0.406}, usual_std{0.229, 0.224, 0.225};
  std::filesystem::path path = {};
  std::int64_t resize = 256;      ///< pixels of an image's shorter side; at least image_size
  std::int64_t image_size = 224;  ///< pixels of a sample's sides
  double test_fraction = 0;       ///< share of the training images that is held out for testing

  OptionFields options();
  std::shared_ptr<const SampleReader> open(const DatasetOptions& options) const;
};

}  // namespace troupe
