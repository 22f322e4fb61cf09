#include "actors/data/idx_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "actors/data/dataset_folder.h"
#include "actors/data/memory_dataset.h"
#include "runtime/error.h"
#include "runtime/file/idx.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

/// Where a data set looks for its files.
struct Places {
  std::string_view name;
  std::string_view package_folder;           // of a Debian package, where there is no path
  bool is_fetched;                           // else in dataset_folder, where there is no path
  std::vector<std::string_view> subfolders;  // of the folder
  const char* remedy;                        // for missing files; {}: how to fetch them
  const char* remedy_of_path = remedy;       // the same where there is a path

  std::string remedy_for(const fs::path& given) const {
    return fmt::format(fmt::runtime(given.empty() ? remedy : remedy_of_path),
                       fetch_into(name, given));
  }
};

const Places fashion_mnist{
    FashionMnist::name,
    "/usr/share/datasets/fashion-mnist",
    true,
    {"", "FashionMNIST/raw", "raw"},
    "run apt-get install dataset-fashion-mnist or {}, or set `Dataset::path` to the folder of the "
    "four files",
    "run {}, set `Dataset::path` to the folder of the four files, or run apt-get install "
    "dataset-fashion-mnist and leave `Dataset::path` empty"};
const Places mnist{
    Mnist::name,
    "",
    true,
    {"", "MNIST/raw", "raw"},
    "run {}, or download the four files from "
    "https://ossci-datasets.s3.amazonaws.com/mnist/, such as train-images-idx3-ubyte.gz, and set "
    "`Dataset::path` to their folder"};
const Places any_idx{
    IdxFolder::name,
    "",
    false,
    {""},
    "set `Dataset::path` to the folder of train-images-idx3-ubyte, train-labels-idx1-ubyte, "
    "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte"};

struct IdxFile {
  fs::path path;
  Shape shape;
};

/// The folder of a data set, and what its errors recommend.
struct Folder {
  fs::path path;
  std::string remedy;

  /// The file of a part ("train") with "images" of three axes or four, or "labels" of one; nothing
  /// if there is none.
  std::optional<fs::path> find(const char* part, const char* content, int axes) const {
    for (const char separator : {'-', '.'})
      for (const char* end : {"", ".gz"}) {
        const fs::path file =
            path / fmt::format("{}-{}{}idx{}-ubyte{}", part, content, separator, axes, end);
        if (std::error_code ignored; fs::is_regular_file(file, ignored)) return file;
      }
    return std::nullopt;
  }
  fs::path file(const char* part, const char* content, int axes) const {
    if (const auto found = find(part, content, axes)) return *found;
    throw Error(ErrorCode::io,
                fmt::format("{0} has neither {1}-{2}-idx{3}-ubyte nor the same with .gz",
                            path.string(), part, content, axes),
                remedy);
  }
};

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

IdxFile open_images(const Folder& folder, const char* part) {
  const auto plain = folder.find(part, "images", 3), with_channels = folder.find(part, "images", 4);
  const bool has_channels = !plain && with_channels;
  return open_idx(has_channels ? *with_channels : folder.file(part, "images", 3), 3, 4);
}
IdxFile open_labels(const Folder& folder, const char* part) {
  return open_idx(folder.file(part, "labels", 1), 1, 1);
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

PartFiles open_part(const Folder& folder, const char* part) {
  PartFiles files{open_images(folder, part), open_labels(folder, part)};
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

Folder folder_of(const Places& places, const fs::path& path) {
  std::vector<fs::path> folders;
  if (path.empty()) {
    folders.emplace_back(places.package_folder);
    if (places.is_fetched) folders.push_back(dataset_folder(places.name));
  } else {
    folders.push_back(path);
  }
  std::erase(folders, fs::path());
  if (folders.empty())
    throw Error(ErrorCode::io, fmt::format("{} has no `Dataset::path`", places.name),
                places.remedy_for(path));
  for (const fs::path& folder : folders)
    for (const std::string_view below : places.subfolders) {
      Folder found{below.empty() ? folder : folder / below, places.remedy_for(path)};
      if (found.find("train", "images", 3) || found.find("train", "images", 4)) return found;
    }
  return {folders.back(), places.remedy_for(path)};
}

DatasetSummary describe_idx(const Places& places, const fs::path& path,
                            const DatasetOptions& options) {
  if (std::error_code ignored; !path.empty() && !fs::is_directory(path, ignored)) {
    const bool exists = fs::exists(path, ignored);
    throw Error(ErrorCode::bad_options,
                fmt::format("`Dataset::path` is {}, which {}", path.string(),
                            exists ? "is not a folder" : "does not exist"),
                exists ? "give the folder that holds the four IDX files" : places.remedy_for(path));
  }
  const Folder folder = folder_of(places, path);
  const IdxFile train = open_images(folder, "train");
  DatasetSummary summary{.samples = {.shape = image_shape(train), .dtype = DType::u8},
                         .train = options.taken(Split::train, train.shape[0])};
  try {  // what one file tells is enough for most questions
    for (const char* part : {"train", "t10k"})
      summary.samples.classes =
          std::max(summary.samples.classes, classes_in(read_idx(open_labels(folder, part).path)));
    summary.test = options.taken(Split::test, open_images(folder, "t10k").shape[0]);
  } catch (const Error&) {  // open_idx_folder throws it
  }
  return summary;
}

std::shared_ptr<const SampleReader> open_idx_folder(const Places& places, const fs::path& path,
                                                    const DatasetOptions& options) {
  const Folder folder = folder_of(places, path);
  const PartFiles train = open_part(folder, "train"), test = open_part(folder, "t10k");
  const Shape image = image_shape(train.images), test_image = image_shape(test.images);
  if (image != test_image)
    throw Error(ErrorCode::bad_file,
                fmt::format("{}: an image is {} for training and {} for testing",
                            folder.path.string(), to_string(image), to_string(test_image)),
                "take all four files from the same data set");
  const Tensor train_labels = read_idx(train.labels.path), test_labels = read_idx(test.labels.path);
  const auto taken = [&](Split split, const PartFiles& files) {
    return options.taken(split, files.images.shape[0]);
  };
  return std::make_shared<MemoryDataset>(
      places.name,
      SampleSpec{.shape = image,
                 .dtype = DType::u8,
                 .classes = std::max(classes_in(train_labels), classes_in(test_labels))},
      read_part(train, train_labels, taken(Split::train, train), std::launch::async),
      read_part(test, test_labels, taken(Split::test, test), std::launch::deferred));
}

OptionFields path_option(fs::path& path, const char* help) {
  return {field("data.path", path, help, {.setting = "Dataset::path"})};
}

}  // namespace

OptionFields FashionMnist::options() {
  return path_option(path,
                     "folder of the data set's files; empty: that of Debian's package, else of the "
                     "download");
}
DatasetSummary FashionMnist::describe(const DatasetOptions& options) const {
  return describe_idx(fashion_mnist, path, options);
}
std::shared_ptr<const SampleReader> FashionMnist::open(const DatasetOptions& options) const {
  return open_idx_folder(fashion_mnist, path, options);
}

OptionFields Mnist::options() {
  return path_option(path, "folder of the data set's files; empty: that of the download");
}
DatasetSummary Mnist::describe(const DatasetOptions& options) const {
  return describe_idx(mnist, path, options);
}
std::shared_ptr<const SampleReader> Mnist::open(const DatasetOptions& options) const {
  return open_idx_folder(mnist, path, options);
}

OptionFields IdxFolder::options() { return path_option(path, "folder of the data set's files"); }
DatasetSummary IdxFolder::describe(const DatasetOptions& options) const {
  return describe_idx(any_idx, path, options);
}
std::shared_ptr<const SampleReader> IdxFolder::open(const DatasetOptions& options) const {
  return open_idx_folder(any_idx, path, options);
}

}  // namespace troupe
