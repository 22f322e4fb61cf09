#include "actors/data/idx_folder.h"

#include <fmt/format.h>

#include <algorithm>

#include "actors/data/memory_dataset.h"
#include "runtime/error.h"
#include "runtime/file/idx.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view debian_folder = "/usr/share/datasets/fashion-mnist";

struct IdxFile {
  fs::path path;
  Shape shape;
};

fs::path find_file(const fs::path& folder, const std::string& name) {
  for (const fs::path& path : {folder / name, folder / (name + ".gz")})
    if (std::error_code ignored; fs::exists(path, ignored)) return path;
  throw Error(ErrorCode::io, fmt::format("neither {0} nor {0}.gz exists", (folder / name).string()),
              "run apt-get install dataset-fashion-mnist, or set `Dataset::path` to the folder of "
              "the four files");
}

IdxFile open_idx(const fs::path& path, int least_axes, int most_axes) {
  const Shape shape = read_idx_shape(path);
  if (shape.rank() < least_axes || shape.rank() > most_axes)
    throw Error(ErrorCode::bad_file,
                fmt::format("{} holds an array of the shape {}", path.string(), to_string(shape)),
                most_axes == 1 ? "labels have one axis: use the file of the labels"
                               : "images have the axes [count, height, width] or [count, channels, "
                                 "height, width]: use the file of the images");
  if (shape.element_count() == 0)
    throw Error(
        ErrorCode::bad_file,
        fmt::format("{} holds no elements: its shape is {}", path.string(), to_string(shape)),
        "the file is damaged or empty: fetch it again");
  return {path, shape};
}

IdxFile open_images(const fs::path& folder, const std::string& prefix) {
  return open_idx(find_file(folder, prefix + "-images-idx3-ubyte"), 3, 4);
}
IdxFile open_labels(const fs::path& folder, const std::string& prefix) {
  return open_idx(find_file(folder, prefix + "-labels-idx1-ubyte"), 1, 1);
}

/// [channels, height, width] of one image.
Shape image_shape(const IdxFile& images) {
  const Shape& all = images.shape;
  return all.rank() == 3 ? Shape{1, all[1], all[2]} : Shape{all[1], all[2], all[3]};
}

/// One more than the greatest label.
std::int64_t classes_in(const Tensor& labels) {
  const auto all = labels.elements<std::uint8_t>();
  return 1 + std::int64_t{*std::ranges::max_element(all)};
}

Tensor targets_of(const Tensor& labels, std::int64_t count) {
  Tensor targets = Tensor::empty(Shape{count}, DType::i64, Device::cpu());
  std::copy_n(labels.data<std::uint8_t>(), count, targets.data<std::int64_t>());
  return targets;
}

// Only the path is kept: the packed file is not held in memory before and after.
Tensor read_images(const fs::path& path, const Shape& image, std::int64_t count) {
  return read_idx_rows(path, count).reshape(Shape{count, image[0], image[1], image[2]});
}

struct PartFiles {
  IdxFile images, labels;
};

PartFiles open_part(const fs::path& folder, const std::string& prefix) {
  PartFiles files{open_images(folder, prefix), open_labels(folder, prefix)};
  if (files.images.shape[0] != files.labels.shape[0])
    throw Error(
        ErrorCode::bad_file,
        fmt::format("{} has {} images, {} has {} labels", files.images.path.string(),
                    files.images.shape[0], files.labels.path.string(), files.labels.shape[0]),
        "take both files from the same data set");
  return files;
}

MemoryDataset::Part read_part(const PartFiles& files, const Tensor& labels, std::int64_t count,
                              std::launch when) {
  return {
      targets_of(labels, count),
      std::async(when, read_images, files.images.path, image_shape(files.images), count).share()};
}

fs::path folder_of(const IdxFolder& options) {
  return options.path.empty() ? fs::path(debian_folder) : options.path;
}

}  // namespace

OptionFields IdxFolder::options() {
  return {field("data.path", path,
                "folder of the data set's files; empty: that of Debian's package",
                {.setting = "Dataset::path"})};
}

DatasetSummary IdxFolder::describe(const DatasetOptions& options) const {
  const fs::path folder = folder_of(*this);
  if (std::error_code ignored; !path.empty() && !fs::is_directory(path, ignored))
    throw Error(ErrorCode::bad_options,
                fmt::format("`Dataset::path` is {}, which is not a folder", path.string()),
                "give the folder that holds the four IDX files");
  const IdxFile train = open_images(folder, "train");
  DatasetSummary summary{.samples = {.shape = image_shape(train), .dtype = DType::u8},
                         .train = options.taken(Split::train, train.shape[0])};
  try {  // what one file tells is enough for most questions
    for (const char* prefix : {"train", "t10k"})
      summary.samples.classes =
          std::max(summary.samples.classes, classes_in(read_idx(open_labels(folder, prefix).path)));
    summary.test = options.taken(Split::test, open_images(folder, "t10k").shape[0]);
  } catch (const Error&) {  // open() throws it
  }
  return summary;
}

std::shared_ptr<const SampleReader> IdxFolder::open(const DatasetOptions& options) const {
  const fs::path folder = folder_of(*this);
  const PartFiles train = open_part(folder, "train"), test = open_part(folder, "t10k");
  const Shape image = image_shape(train.images), test_image = image_shape(test.images);
  if (image != test_image)
    throw Error(ErrorCode::bad_file,
                fmt::format("{}: an image is {} for training and {} for testing", folder.string(),
                            to_string(image), to_string(test_image)),
                "take all four files from the same data set");
  const Tensor train_labels = read_idx(train.labels.path), test_labels = read_idx(test.labels.path);
  const auto taken = [&](Split split, const PartFiles& files) {
    return options.taken(split, files.images.shape[0]);
  };
  return std::make_shared<MemoryDataset>(
      name,
      SampleSpec{.shape = image,
                 .dtype = DType::u8,
                 .classes = std::max(classes_in(train_labels), classes_in(test_labels))},
      read_part(train, train_labels, taken(Split::train, train), std::launch::async),
      read_part(test, test_labels, taken(Split::test, test), std::launch::deferred));
}

}  // namespace troupe
