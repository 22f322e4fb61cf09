// Data sets in the form of MNIST: two IDX files for training, two for testing, plain or gzip.

#include <fmt/format.h>

#include <algorithm>

#include "actors/data/dataset_content.h"
#include "runtime/error.h"
#include "runtime/file/idx.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view debian_folder = "/usr/share/datasets/fashion-mnist";
constexpr std::int64_t fashion_classes = 10;
constexpr int image_axes = 3, label_axes = 1;

struct IdxFile {
  fs::path path;
  Shape shape;
};

fs::path find_file(const fs::path& folder, const std::string& name) {
  for (const fs::path& path : {folder / name, folder / (name + ".gz")})
    if (std::error_code ignored; fs::exists(path, ignored)) return path;
  throw Error(ErrorCode::io,
              fmt::format("data.path: neither {0} nor {0}.gz is there", (folder / name).string()),
              "apt-get install dataset-fashion-mnist, or set data.path to the folder of the files");
}

IdxFile open_idx(const fs::path& path, int axes) {
  const Shape shape = read_idx_shape(path);
  if (shape.rank() != axes || shape.element_count() == 0)
    throw Error(ErrorCode::bad_file,
                fmt::format("{} holds {}, not {} axes", path.string(), to_string(shape), axes),
                "the file is damaged or another one: get it anew");
  return {path, shape};
}

Tensor read_labels(const IdxFile& file, std::int64_t count) {
  const Tensor all = read_idx(file.path);
  Tensor labels = Tensor::empty(Shape{count}, DType::i64, Device::cpu());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t label = all.data<std::uint8_t>()[i];
    if (label >= fashion_classes)
      throw Error(ErrorCode::bad_file,
                  fmt::format("{}: label {} of sample {} is not in [0, {})", file.path.string(),
                              label, i, fashion_classes),
                  "the file is damaged or another one: get it anew");
    labels.data<std::int64_t>()[i] = label;
  }
  return labels;
}

// Only the path is kept: the packed file is not held in memory before and after.
Tensor read_images(const fs::path& path, std::int64_t count) {
  const Tensor images = read_idx_rows(path, count);
  return images.reshape(Shape{count, 1, images.dim(1), images.dim(2)});
}

fs::path folder_of(const DatasetOptions& options) {
  return options.path.empty() ? fs::path(debian_folder) : options.path;
}

IdxFile open_images(const fs::path& folder, const std::string& prefix) {
  return open_idx(find_file(folder, prefix + "-images-idx3-ubyte"), image_axes);
}

struct PartFiles {
  IdxFile images, labels;
};

PartFiles open_part(const fs::path& folder, const std::string& prefix) {
  PartFiles files{open_images(folder, prefix),
                  open_idx(find_file(folder, prefix + "-labels-idx1-ubyte"), label_axes)};
  if (files.images.shape[0] != files.labels.shape[0])
    throw Error(
        ErrorCode::bad_file,
        fmt::format("{} has {} images, {} has {} labels", files.images.path.string(),
                    files.images.shape[0], files.labels.path.string(), files.labels.shape[0]),
        "take both files from the same data set");
  return files;
}

Dataset::Content::Part read_part(const PartFiles& files, std::int64_t limit, std::launch when) {
  const std::int64_t all = files.images.shape[0];
  const std::int64_t count = limit == 0 ? all : std::min(all, limit);
  return {read_labels(files.labels, count),
          std::async(when, read_images, files.images.path, count).share()};
}

}  // namespace

std::int64_t detail::count_idx_samples(const DatasetOptions& options) {
  return open_images(folder_of(options), "train").shape[0];
}

Dataset detail::open_idx_folder(const DatasetOptions& options) {
  const fs::path folder = folder_of(options);
  const PartFiles train = open_part(folder, "train"), test = open_part(folder, "t10k");
  const Shape& shape = train.images.shape;
  if (shape.with_outer(1) != test.images.shape.with_outer(1))
    throw Error(
        ErrorCode::bad_file,
        fmt::format("{}: images for training are {} × {}, for testing {} × {}", folder.string(),
                    shape[1], shape[2], test.images.shape[1], test.images.shape[2]),
        "take all four files from the same data set");
  auto content = std::make_shared<Dataset::Content>();
  content->options = options;
  content->classes = fashion_classes;
  content->sample_shape = Shape{1, shape[1], shape[2]};
  content->train = read_part(train, options.limit, std::launch::async);
  content->test = read_part(test, options.test_limit, std::launch::deferred);
  return Dataset(std::move(content));
}

}  // namespace troupe
