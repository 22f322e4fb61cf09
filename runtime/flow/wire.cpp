#include "runtime/flow/wire.h"

#include <fmt/format.h>

#include <array>
#include <span>

namespace troupe {

void WireWriter::count(std::size_t items) { (*this)(static_cast<std::uint32_t>(items)); }

void WireWriter::operator()(const std::string& text) {
  count(text.size());
  append(text.data(), text.size());
}

void WireWriter::operator()(const Tensor& tensor) {
  (*this)(tensor.defined());
  if (!tensor.defined()) return;
  (*this)(tensor.dtype());
  (*this)(tensor.layout());
  (*this)(static_cast<std::uint8_t>(tensor.rank()));
  for (const std::int64_t dim : tensor.shape().dims()) (*this)(dim);
  tensors.push_back(tensor);
}

void WireWriter::operator()(const Error& error) {
  (*this)(error.code());
  (*this)(error.message());
  (*this)(error.remedy());
}

const char* WireReader::take(std::size_t size) {
  if (size > rest_.size()) refuse(fmt::format("{} bytes where {} are needed", rest_.size(), size));
  const char* begin = rest_.data();
  rest_.remove_prefix(size);
  return begin;
}

std::size_t WireReader::count() {
  std::uint32_t items = 0;
  (*this)(items);
  if (items > rest_.size()) refuse(fmt::format("{} bytes for {} items", rest_.size(), items));
  return items;
}

void WireReader::operator()(bool& value) {
  const auto number = static_cast<std::uint8_t>(*take(1));
  if (number > 1) refuse_value(number);
  value = number == 1;
}

void WireReader::operator()(std::string& text) {
  const std::size_t size = count();
  text.assign(take(size), size);
}

void WireReader::operator()(Tensor& tensor) {
  tensor = Tensor();
  bool defined = false;
  (*this)(defined);
  if (!defined) return;
  TensorMeta meta;
  std::uint8_t rank = 0;
  (*this)(meta.dtype);
  (*this)(meta.layout);
  (*this)(rank);
  if (rank > Shape::max_rank) refuse(fmt::format("a tensor of {} axes", rank));
  std::array<std::int64_t, Shape::max_rank> storage{};
  const auto dims = std::span(storage).first(rank);
  for (std::int64_t& dim : dims) (*this)(dim);
  try {
    meta.shape = Shape(dims);
    check_layout(meta.layout, meta.shape);
  } catch (const Error& error) {
    refuse(error.message());
  }
  tensors_.push_back({&tensor, meta});
}

Error WireReader::read_error() {
  ErrorCode code{};
  std::string message, remedy;
  (*this)(code);
  (*this)(message);
  (*this)(remedy);
  return {code, std::move(message), std::move(remedy)};
}

void WireReader::operator()(Error& error) { error = read_error(); }

void WireReader::operator()(std::optional<Error>& error) {
  bool has_value = false;
  (*this)(has_value);
  error.reset();
  if (has_value) error.emplace(read_error());
}

void WireReader::check_end() const {
  if (!rest_.empty()) refuse(fmt::format("{} bytes too many for its type", rest_.size()));
}

void WireReader::refuse(const std::string& what) {
  throw Error(ErrorCode::bad_message, fmt::format("a message from another process has {}", what),
              "run the same version of the program in every process");
}

void WireReader::refuse_value(std::int64_t value) {
  refuse(fmt::format("the value {}, which is out of range for its type", value));
}

}  // namespace troupe
