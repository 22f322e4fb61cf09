#pragma once
// Training and test samples, as loaders read them.

#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/models/model.h"
#include "runtime/image/image.h"
#include "runtime/options/definition.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

enum class Split : std::uint8_t { train, test };

/// All samples of a split and their targets, each in one tensor whose outermost axis counts them.
struct StoredSamples {
  Tensor samples, targets;
};

/// What a data set calls its targets, for messages.
struct TargetNames {
  std::vector<std::string> columns;  ///< of a table; empty: it has no names for them
  std::vector<std::string> classes;  ///< by number; empty: classes are only numbered
};

/// A training and a test set. Derive from it to train on data of your own:
///
///     class Parity final : public SampleReader {
///      public:
///       std::string_view name() const override { return "parity"; }
///       SampleSpec samples() const override { return {.shape = {8}, .classes = 2}; }
///       std::int64_t count(Split) const override { return 256; }
///       void read(Split, std::int64_t index, Tensor sample, Tensor target) const override;
///     };
///     PipelineOptions options{.data = {.dataset = std::make_shared<Parity>()}};
///
/// Immutable: all functions may be called from any thread. An exception in them fails the loader.
class SampleReader {
 public:
  virtual ~SampleReader() = default;
  virtual std::string_view name() const = 0;  ///< for messages and checkpoints
  virtual SampleSpec samples() const = 0;
  virtual TargetNames target_names() const { return {}; }
  virtual std::int64_t count(Split split) const = 0;
  /// Writes sample `index` of a split and its target: views of one sample each, of the shapes and
  /// types of `samples()` with an outermost axis of 1.
  virtual void read(Split split, std::int64_t index, Tensor sample, Tensor target) const = 0;
  /// The same with a part of the image, resized to the shape of `samples()`, which is that of an
  /// image of u8: for random resized crops. The default takes the part from what `read` writes; a
  /// data set with larger images in its files takes it from those.
  virtual void read_part(Split split, std::int64_t index, const PartOf& part, Tensor sample,
                         Tensor target) const;
  /// All samples of a split, if they are in memory; the loader then calls `read` only for parts.
  /// May wait for the samples.
  virtual std::optional<StoredSamples> stored(Split) const { return std::nullopt; }
  /// The memory of all samples and targets. Mapped files count in full; of files that are read on
  /// demand, only the cached part counts. The default is that of `stored`.
  virtual std::size_t bytes_in_memory() const;
  /// The most memory that each thread in `read` takes besides the sample.
  virtual std::size_t bytes_per_thread() const { return 0; }
};

/// A handle of a training and a test set, and the options that describe them. Copies share both.
/// Safe to use from any thread.
class Dataset {
 public:
  template <std::derived_from<SampleReader> R>
  Dataset(std::shared_ptr<R> reader)  // implicit: options take a reader of one's own
      : Dataset(std::shared_ptr<const SampleReader>(std::move(reader)), {}) {}
  /// Without a reader it is a placeholder for a data set that is opened later. `description` are
  /// the fields that a checkpoint keeps of it; only their text is used.
  Dataset(std::shared_ptr<const SampleReader> reader, const OptionFields& description);

  std::string_view name() const { return reader_->name(); }
  const SampleSpec& samples() const { return samples_; }
  TargetNames target_names() const { return reader_->target_names(); }
  std::int64_t count(Split split) const { return reader_->count(split); }
  void read(Split split, std::int64_t index, Tensor sample, Tensor target) const {
    reader_->read(split, index, std::move(sample), std::move(target));
  }
  void read_part(Split split, std::int64_t index, const PartOf& part, Tensor sample,
                 Tensor target) const {
    reader_->read_part(split, index, part, std::move(sample), std::move(target));
  }
  std::optional<StoredSamples> stored(Split split) const { return reader_->stored(split); }
  std::size_t bytes_in_memory() const { return reader_->bytes_in_memory(); }
  std::size_t bytes_per_thread() const { return reader_->bytes_per_thread(); }
  const OptionFields& description() const { return description_; }

 private:
  std::shared_ptr<const SampleReader> reader_;
  SampleSpec samples_;
  OptionFields description_;
};

/// The options that every data set of the registry receives when it is opened.
struct DatasetOptions {
  std::uint64_t seed = 1;  ///< of samples that are drawn
  /// At most so many training samples: the first, or where samples are sorted by class (image
  /// folders), some of every class; 0: all.
  std::int64_t limit = 0;
  std::int64_t test_limit = 0;  ///< the same of test samples

  /// How many of `count` samples are taken.
  std::int64_t taken(Split split, std::int64_t count) const;
};

/// The properties of a data set that are known before its samples are read.
struct DatasetSummary {
  SampleSpec samples;
  std::int64_t train = 0, test = 0;  ///< samples
  /// The reader, if the data set had to be opened for them; open_dataset takes it.
  std::shared_ptr<const SampleReader> opened = {};
};

/// A struct that describes a data set: its members are the data set's options, `open` makes a
/// reader. It may also have `OptionFields options()`, which declares the members with key, range
/// and text, and `DatasetSummary describe(const DatasetOptions&) const` where this takes less than
/// opening it. `static constexpr std::array<double, N> usual_mean, usual_std` are the values of its
/// pixels that runs normalise with, for each channel. `actors/data/synthetic.h` is an example.
template <class D>
concept DatasetDefinition = Named<D> &&
    requires(const D& definition, const DatasetOptions& options) {
  { definition.open(options) } -> std::same_as<std::shared_ptr<const SampleReader>>;
};

/// A data set that can be opened. A value: copies are independent.
class DatasetSource : public Definition {
 public:
  static constexpr std::string_view setting = "Dataset::name";

  template <DatasetDefinition D>
  DatasetSource(D definition)  // implicit: open_dataset(Synthetic{.count = 640})
      : Definition(std::move(definition)),
        describe_([](const DatasetSource& self, const DatasetOptions& options) {
          const D& own = self.as<D>();
          if constexpr (requires { own.describe(options); })
            return own.describe(options);
          else
            return summary_of(checked(own.open(options), D::name));
        }),
        open_([](const DatasetSource& self, const DatasetOptions& options) {
          return checked(self.as<D>().open(options), D::name);
        }) {
    if constexpr (requires {
                    D::usual_mean;
                    D::usual_std;
                  }) {
      usual_mean_.assign(D::usual_mean.begin(), D::usual_mean.end());
      usual_std_.assign(D::usual_std.begin(), D::usual_std.end());
    }
  }

  /// Reads at most headers and labels if these are enough; otherwise opens the data set. Throws as
  /// open_dataset.
  DatasetSummary describe(const DatasetOptions& options = {}) const;
  /// Mean and standard deviation of the pixels, each for all channels or one for each; 0 and 1 if
  /// the data set has no usual values.
  const std::vector<double>& usual_mean() const { return usual_mean_; }
  const std::vector<double>& usual_std() const { return usual_std_; }

 private:
  static std::shared_ptr<const SampleReader> checked(std::shared_ptr<const SampleReader> opened,
                                                     std::string_view name);
  static DatasetSummary summary_of(std::shared_ptr<const SampleReader> reader) {
    return {reader->samples(), reader->count(Split::train), reader->count(Split::test),
            std::move(reader)};
  }
  friend Dataset open_dataset(DatasetSource source, const DatasetOptions& options,
                              std::shared_ptr<const SampleReader> opened);
  void check(const DatasetOptions& options) const;

  DatasetSummary (*describe_)(const DatasetSource& self, const DatasetOptions& options);
  std::shared_ptr<const SampleReader> (*open_)(const DatasetSource& self,
                                               const DatasetOptions& options);
  std::vector<double> usual_mean_ = {0.0}, usual_std_ = {1.0};
};

/// Throws Error: bad_options for options outside their declared ranges, io for a missing file (and
/// how to get it), bad_file for a file that is damaged or does not fit the others. `opened` is
/// DatasetSummary::opened of the same source and options: it is not opened again.
Dataset open_dataset(DatasetSource source, const DatasetOptions& options = {},
                     std::shared_ptr<const SampleReader> opened = {});

}  // namespace troupe
