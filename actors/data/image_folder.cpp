#include "actors/data/image_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <regex>
#include <string>
#include <string_view>

#include "actors/data/hold_out.h"
#include "actors/data/image_files.h"
#include "runtime/error.h"
#include "runtime/file/file.h"
#include "runtime/image/resize.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

/// Larger than any image of most_image_pixels.
constexpr std::uint64_t most_file_bytes = std::uint64_t{1} << 30;

Image read_image(const fs::path& path, const PartOf& part) {
  const InputFile file = InputFile::open(path);
  if (file.size() > most_file_bytes)
    throw Error(ErrorCode::bad_file,
                fmt::format("{} has {} bytes, more than any image", path.string(), file.size()),
                "remove it from the data set");
  std::vector<std::byte> bytes(file.size());
  file.read_at(0, bytes);
  return decode_image(bytes, path.string(), part);
}

/// Pixels of an image's axis after its shorter side became `shorter`: torchvision rounds down.
std::int64_t resized(std::int64_t side, ImageSize image, std::int64_t shorter) {
  return shorter * side / std::min(image.width, image.height);
}

/// The first pixel of a central part; halves are rounded to even, as Python does.
std::int64_t central(std::int64_t size, std::int64_t part) {
  return std::llrint(static_cast<double>(size - part) / 2);
}

class ImageFolderReader final : public SampleReader {
 public:
  ImageFolderReader(const ImageFolder& definition, const DatasetOptions& options, ImageFiles train,
                    ImageFiles test)
      : resize_(definition.resize),
        size_(definition.image_size),
        options_(options),
        train_(std::move(train)),
        test_(std::move(test)) {}

  std::string_view name() const override { return ImageFolder::name; }
  SampleSpec samples() const override {
    return {.shape = {3, size_, size_}, .dtype = DType::u8, .classes = std::ssize(train_.classes)};
  }
  TargetNames target_names() const override { return {.columns = {}, .classes = train_.classes}; }
  std::int64_t count(Split split) const override {
    return options_.taken(split, std::ssize(files(split).files));
  }

  void read(Split split, std::int64_t index, Tensor sample, Tensor target) const override {
    const Image image = decode(split, index, target, whole);
    const std::int64_t width = resized(image.size.width, image.size, resize_);
    const std::int64_t height = resized(image.size.height, image.size, resize_);
    write(image, {0, image.size.width, width, central(width, size_), size_},
          {0, image.size.height, height, central(height, size_), size_}, sample);
  }

  void read_part(Split split, std::int64_t index, const PartOf& part, Tensor sample,
                 Tensor target) const override {
    ImageBox box;
    const auto choose = [&](ImageSize size) { return box = part(size); };
    const Image image = decode(split, index, target, choose);
    write(image, {box.left, box.width, size_, 0, size_}, {box.top, box.height, size_, 0, size_},
          sample);
  }

 private:
  const ImageFiles& files(Split split) const { return split == Split::train ? train_ : test_; }

  static ImageBox whole(ImageSize size) { return {0, 0, size.width, size.height}; }

  /// The image, and its class in `target`.
  Image decode(Split split, std::int64_t index, Tensor& target, const PartOf& part) const {
    const ImageFiles& all = files(split);
    // Files lie in the order of their classes: fewer of them are spread evenly over all.
    const std::int64_t file = index * std::ssize(all.files) / count(split);
    target.data<std::int64_t>()[0] = all.class_of(file);
    return read_image(all.folder / all.files[static_cast<std::size_t>(file)], part);
  }

  static void write(const Image& image, const ResizeAxis& columns, const ResizeAxis& rows,
                    Tensor& sample) {
    troupe::resize({image.pixels.data(), image.size, 3}, columns, rows,
                   sample.data<std::uint8_t>());
  }

  std::int64_t resize_, size_;
  DatasetOptions options_;
  ImageFiles train_, test_;
};

constexpr const char* layout_remedy =
    "set `Dataset::path` to a folder with train/CLASS/… and val/CLASS/… (or test/CLASS/…), where "
    "CLASS stands for the folders of the classes, or to one with CLASS/… alone";

/// The first of the folders that exists; empty: none.
fs::path existing(const fs::path& path, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (std::error_code ignored; fs::is_directory(path / name, ignored)) return path / name;
  return {};
}

/// Whether a folder of this name probably holds a split: "valid", "Train", "train2017", "test_set".
bool is_name_of_split(std::string_view name) {
  static const std::regex split(
      "(train|training|val|valid|validation|test|testing|eval|evaluation|dev)"
      "[-_ ]?(set|data|images)?[-_ ]?[0-9]*",
      std::regex::icase);
  return std::regex_match(name.begin(), name.end(), split);
}

/// Throws for a folder that by its name holds a split, but has not a name that is read: its
/// images would be classes of training, or be left out.
void check_names_of_splits(const fs::path& path) {
  constexpr std::array read{"train", "val", "test"};
  const bool has_both =
      !existing(path, {"train"}).empty() && !existing(path, {"val", "test"}).empty();
  for (const std::string& name : class_names(path)) {
    if (std::ranges::find(read, name) == read.end() && is_name_of_split(name))
      throw Error(ErrorCode::bad_file,
                  fmt::format("{} is not read under this name", (path / name).string()),
                  has_both ? "move it out of this folder, or remove it"
                           : "call the folders of training and test images train and val (or "
                             "test); if it is a class, rename it");
  }
}

/// The first class that only one split has.
void check_same_classes(const ImageFiles& train, const ImageFiles& test) {
  const auto [in_train, in_test] = std::ranges::mismatch(train.classes, test.classes);
  const bool train_ends = in_train == train.classes.end(),
             test_ends = in_test == test.classes.end();
  if (train_ends && test_ends) return;
  const bool only_train = test_ends || (!train_ends && *in_train < *in_test);
  throw Error(ErrorCode::bad_file,
              fmt::format("the class {} is in {}, but not in {}", only_train ? *in_train : *in_test,
                          (only_train ? train : test).folder.string(),
                          (only_train ? test : train).folder.string()),
              "give both the same class folders: targets are their positions in the sorted list");
}

}  // namespace

OptionFields ImageFolder::options() {
  return {field("data.path", path,
                "folder with train/CLASS/ and val/CLASS/ or test/CLASS/ of JPEG and PNG files, or "
                "with CLASS/ alone",
                {.setting = "Dataset::path"}),
          field("data.resize", resize,
                "length in pixels of an image's shorter side before the central part is taken",
                {.at_least = 1, .at_most = 65500, .synonyms = {"val_resize_size"}}),
          field("data.image_size", image_size, "width and height of a sample",
                {.at_least = 1,
                 .at_most = 65500,
                 .synonyms = {"train_crop_size", "val_crop_size", "img_size", "crop_size"}}),
          test_fraction_option(test_fraction)};
}

std::shared_ptr<const SampleReader> ImageFolder::open(const DatasetOptions& options) const {
  if (resize < image_size)
    throw Error(ErrorCode::bad_options,
                fmt::format("`resize` is {}, less than `image_size` {}", resize, image_size),
                "raise `resize`, or lower `image_size`");
  if (path.empty())
    throw Error(ErrorCode::io, "image_folder has no `Dataset::path`", layout_remedy);
  const fs::path test_folder = existing(path, {"val", "test"});
  fs::path train_folder = existing(path, {"train"});
  std::error_code ignored;
  const bool has_classes_alone =
      train_folder.empty() && test_folder.empty() && fs::is_directory(path, ignored);
  if (has_classes_alone) train_folder = path;
  if (train_folder.empty()) {
    const fs::path missing = test_folder.empty() ? path : path / "train";
    throw Error(ErrorCode::io,
                fmt::format("{} {}", missing.string(),
                            fs::exists(missing, ignored) ? "is not a folder" : "does not exist"),
                layout_remedy);
  }
  check_names_of_splits(path);
  ImageFiles train = list_image_files(train_folder);
  if (has_classes_alone && train.classes.size() == 1)
    throw Error(ErrorCode::bad_file,
                fmt::format("{} has one class alone, {}", path.string(), train.classes.front()),
                layout_remedy);
  ImageFiles test;
  if (!test_folder.empty()) {
    check_no_test_samples(test_fraction, test_folder.string());
    test = list_image_files(test_folder);
    check_same_classes(train, test);
  } else if (test_fraction > 0) {
    const HeldOut divided =
        hold_out(test_fraction, std::ssize(train.files), options.seed, train_folder.string());
    test = chosen_files(train, divided.test);
    train = chosen_files(train, divided.train);
  }
  return std::make_shared<ImageFolderReader>(*this, options, std::move(train), std::move(test));
}

}  // namespace troupe
