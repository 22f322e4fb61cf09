#pragma once
// The files of an image folder.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe {

/// The image files of one split, in torchvision's order: by class, then folder, then name.
struct ImageFiles {
  std::filesystem::path folder;          ///< contains a folder for each class
  std::vector<std::string> classes;      ///< names, sorted
  std::vector<std::string> files;        ///< relative to `folder`
  std::vector<std::int64_t> first_file;  ///< of each class, then the number of files

  std::int64_t class_of(std::int64_t file) const;
};

/// The names of the folders in `folder`, sorted, without hidden ones. Throws Error{io} for a folder
/// that is missing or unreadable.
std::vector<std::string> class_names(const std::filesystem::path& folder);

/// The files of these numbers, in ascending order. Classes without a file remain.
ImageFiles chosen_files(const ImageFiles& all, const std::vector<std::uint32_t>& numbers);

/// Lists them. Throws Error: io for a folder that is missing or unreadable, bad_file for one
/// without classes, for a class without images and for an image of a format other than JPEG and
/// PNG.
ImageFiles list_image_files(const std::filesystem::path& folder);

}  // namespace troupe
