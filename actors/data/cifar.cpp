#include "actors/data/cifar.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "actors/data/cifar_batch.h"
#include "actors/data/cifar_files.h"
#include "actors/data/memory_dataset.h"

namespace troupe {
namespace {

const CifarKind cifar10{Cifar10::name,
                        10,
                        {{.folder = "cifar-10-batches-bin",
                          .archive = "cifar-10-binary.tar.gz",
                          .files = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                    "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"},
                          .label_bytes = 1},
                         {.folder = "cifar-10-batches-py",
                          .archive = "cifar-10-python.tar.gz",
                          .files = {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                                    "data_batch_5", "test_batch"},
                          .is_pickle = true,
                          .labels_key = "labels"}}};

const CifarKind cifar100{Cifar100::name,
                         100,
                         {{.folder = "cifar-100-binary",
                           .archive = "cifar-100-binary.tar.gz",
                           .files = {"train.bin", "test.bin"},
                           .label_bytes = 2},
                          {.folder = "cifar-100-python",
                           .archive = "cifar-100-python.tar.gz",
                           .files = {"train", "test"},
                           .is_pickle = true,
                           .labels_key = "fine_labels"}}};

const Shape sample_shape{3, 32, 32};

/// Whether a file of a form is for testing.
Split split_of(const CifarForm& form, std::size_t file) {
  return file + 1 == form.files.size() ? Split::test : Split::train;
}

DatasetSummary describe_cifar(const CifarKind& kind, const std::filesystem::path& path,
                              const DatasetOptions& options) {
  std::int64_t train = 0, test = 0;
  read_cifar_files(kind, path,
                   [&](const CifarForm& form, std::size_t file, auto bytes, const auto& origin) {
                     const CifarBatch batch(kind, form, bytes, origin);
                     (split_of(form, file) == Split::train ? train : test) +=
                         static_cast<std::int64_t>(batch.labels().size());
                   });
  return {.samples = {.shape = sample_shape, .dtype = DType::u8, .classes = kind.classes},
          .train = options.taken(Split::train, train),
          .test = options.taken(Split::test, test)};
}

/// The samples of a file.
struct Samples {
  std::vector<std::int64_t> labels;
  std::vector<std::byte> pixels;
};

/// The samples of a split in one piece. Takes them file by file, so that no pixel is in memory
/// twice for long.
MemoryDataset::Part joined(std::span<Samples> files, std::int64_t count) {
  Tensor targets = Tensor::empty(Shape{count}, DType::i64, Device::cpu());
  Tensor pixels = Tensor::empty(Shape{count, sample_shape[0], sample_shape[1], sample_shape[2]},
                                DType::u8, Device::cpu());
  std::size_t done = 0;
  for (Samples& file : files) {
    const Samples taken = std::exchange(file, {});
    const std::size_t size = std::min(taken.labels.size(), static_cast<std::size_t>(count) - done);
    std::copy_n(taken.labels.begin(), size, targets.data<std::int64_t>() + done);
    std::copy_n(taken.pixels.begin(), size * cifar_pixels, pixels.raw() + done * cifar_pixels);
    done += size;
  }
  std::promise<Tensor> ready;
  ready.set_value(std::move(pixels));
  return {std::move(targets), ready.get_future().share()};
}

std::shared_ptr<const SampleReader> open_cifar(const CifarKind& kind,
                                               const std::filesystem::path& path,
                                               const DatasetOptions& options) {
  std::vector<Samples> files;
  std::int64_t train = 0, test = 0;
  read_cifar_files(
      kind, path, [&](const CifarForm& form, std::size_t file, auto bytes, const auto& origin) {
        const CifarBatch batch(kind, form, bytes, origin);
        const auto count = static_cast<std::int64_t>(batch.labels().size());
        const Split split = split_of(form, file);
        (split == Split::train ? train : test) += count;
        Samples samples{batch.labels(), {}};
        samples.pixels.resize(static_cast<std::size_t>(options.taken(split, count)) * cifar_pixels);
        batch.copy_pixels(samples.pixels);
        files.resize(form.files.size());
        files[file] = std::move(samples);
      });
  const std::span<Samples> all(files);
  return std::make_shared<MemoryDataset>(
      kind.name, SampleSpec{.shape = sample_shape, .dtype = DType::u8, .classes = kind.classes},
      joined(all.first(all.size() - 1), options.taken(Split::train, train)),
      joined(all.last(1), options.taken(Split::test, test)));
}

OptionFields path_option(std::filesystem::path& path) {
  return {field("data.path", path,
                "the data set as downloaded: its archive, its folder, or a folder that contains "
                "one of them; empty: that of the download",
                {.setting = "Dataset::path"})};
}

}  // namespace

OptionFields Cifar10::options() { return path_option(path); }
DatasetSummary Cifar10::describe(const DatasetOptions& options) const {
  return describe_cifar(cifar10, path, options);
}
std::shared_ptr<const SampleReader> Cifar10::open(const DatasetOptions& options) const {
  return open_cifar(cifar10, path, options);
}

OptionFields Cifar100::options() { return path_option(path); }
DatasetSummary Cifar100::describe(const DatasetOptions& options) const {
  return describe_cifar(cifar100, path, options);
}
std::shared_ptr<const SampleReader> Cifar100::open(const DatasetOptions& options) const {
  return open_cifar(cifar100, path, options);
}

}  // namespace troupe
