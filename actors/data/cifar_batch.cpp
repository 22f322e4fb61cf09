#include "actors/data/cifar_batch.h"

#include <fmt/format.h>

#include <cstring>

#include "runtime/error.h"
#include "runtime/file/pickle.h"

namespace troupe {
namespace {

[[noreturn]] void fail(const std::string& origin, const std::string& what) {
  throw Error(ErrorCode::bad_file, fmt::format("{} {}", origin, what),
              "the file is damaged or of another data set: download it again");
}

/// The entry of a pickle's dictionary, which must be a T.
template <class T>
const T& entry(const Pickle& pickle, std::string_view key, const std::string& origin) {
  if (const auto* dict = std::get_if<PickleDict*>(&pickle.value()))
    if (const PickleValue* value = (*dict)->find(key))
      if (const auto* held = std::get_if<T*>(value)) return **held;
  fail(origin, fmt::format("holds no entry '{}', or one of another kind", key));
}

std::vector<std::int64_t> labels_in(const PickleList& list, const std::string& origin) {
  std::vector<std::int64_t> labels;
  labels.reserve(list.items.size());
  for (const PickleValue& item : list.items) {
    const auto* label = std::get_if<std::int64_t>(&item);
    if (label == nullptr) fail(origin, "has a label that is not an integer");
    labels.push_back(*label);
  }
  return labels;
}

}  // namespace

CifarBatch::CifarBatch(const CifarKind& kind, const CifarForm& form,
                       std::span<const std::byte> bytes, const std::string& origin) {
  if (form.is_pickle)
    read_pickle(form, bytes, origin);
  else
    read_records(form, bytes, origin);
  if (labels_.empty()) fail(origin, "holds no samples");
  for (std::size_t i = 0; i < labels_.size(); ++i)
    if (labels_[i] < 0 || labels_[i] >= kind.classes)
      fail(origin, fmt::format("has the label {} for sample {}; labels of {} are 0 to {}",
                               labels_[i], i, kind.name, kind.classes - 1));
}

void CifarBatch::read_records(const CifarForm& form, std::span<const std::byte> bytes,
                              const std::string& origin) {
  sample_stride_ = form.label_bytes + cifar_pixels;
  if (bytes.size() % sample_stride_ != 0)
    fail(origin, fmt::format("has {} bytes, which are not whole records of {} bytes", bytes.size(),
                             sample_stride_));
  pixels_ = bytes.data() + form.label_bytes;
  for (std::size_t at = form.label_bytes; at < bytes.size(); at += sample_stride_)
    labels_.push_back(std::to_integer<std::int64_t>(bytes[at - 1]));
}

void CifarBatch::read_pickle(const CifarForm& form, std::span<const std::byte> bytes,
                             const std::string& origin) {
  const auto pickle = std::make_shared<const Pickle>(bytes, origin);
  labels_ = labels_in(entry<PickleList>(*pickle, form.labels_key, origin), origin);
  const auto& data = entry<PickleArray>(*pickle, "data", origin);
  const auto count = static_cast<std::int64_t>(labels_.size());
  const Shape expected{count, std::int64_t{cifar_pixels}};
  if (data.shape != expected || data.type.name != "u1")
    fail(origin, fmt::format("has {} labels and data of the shape {} and type {}, not {} and u1",
                             count, to_string(data.shape), data.type.name, to_string(expected)));
  pixels_ = reinterpret_cast<const std::byte*>(data.data.data());
  if (data.column_major) {
    sample_stride_ = 1;
    pixel_stride_ = labels_.size();
  }
  owner_ = pickle;
}

void CifarBatch::copy_pixels(std::span<std::byte> out) const {
  for (std::size_t i = 0; i < out.size() / cifar_pixels; ++i) {
    const std::byte* from = pixels_ + i * sample_stride_;
    std::byte* to = out.data() + i * cifar_pixels;
    if (pixel_stride_ == 1)
      std::memcpy(to, from, cifar_pixels);
    else
      for (std::size_t j = 0; j < cifar_pixels; ++j) to[j] = from[j * pixel_stride_];
  }
}

}  // namespace troupe
