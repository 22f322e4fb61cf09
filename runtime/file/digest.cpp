#include "runtime/file/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "runtime/error.h"
#include "runtime/file/checkpoint.h"
#include "runtime/file/checkpoint_folder.h"
#include "runtime/file/safetensors.h"
#include "runtime/file/torch_file.h"

namespace troupe {
namespace {

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    check(context_ ? EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) : 0);
  }
  void add(const void* data, std::size_t bytes) {
    check(EVP_DigestUpdate(context_.get(), data, bytes));
  }
  void add_number(std::uint64_t value) {
    std::array<unsigned char, 8> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<unsigned char>(value >> (8 * i));
    add(bytes.data(), bytes.size());
  }
  void add_text(std::string_view text) {
    add_number(text.size());
    add(text.data(), text.size());
  }
  void add_tensor(const NamedTensor& named) {
    const auto& [name, tensor] = named;
    if (!tensor.defined() || tensor.layout() != Layout::row_major || tensor.device() != Device{})
      throw Error(ErrorCode::internal,
                  fmt::format("digest: tensor '{}' is not row-major on the CPU", name));
    add_text(name);
    add_text(name_of(tensor.dtype()));
    add_number(static_cast<std::uint64_t>(tensor.rank()));
    for (std::int64_t size : tensor.shape().dims()) add_number(static_cast<std::uint64_t>(size));
    add(tensor.raw(), tensor.bytes());
  }
  std::string finish() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    unsigned length = 0;
    check(EVP_DigestFinal_ex(context_.get(), bytes.data(), &length));
    std::string text;
    for (unsigned char byte : std::span(bytes).first(length)) text += fmt::format("{:02x}", byte);
    return text;
  }

 private:
  static void check(int done) {
    if (done != 1)
      throw Error(ErrorCode::unsupported, "digest: OpenSSL has no SHA-256",
                  "check OpenSSL's configuration");
  }
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

bool is_counted(std::string_view name) { return !name.starts_with("optimizer."); }

/// One tensor after the other, in the order of names.
std::string digest_of_source(const TensorSource& source) {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : source.tensors)
    if (is_counted(tensor.name)) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  Sha256 sha;
  for (const std::string& name : names) sha.add_tensor({name, source.read(name)});
  return sha.finish();
}

bool is_zip(const std::filesystem::path& path) {
  constexpr std::string_view begin = "PK";
  const InputFile file = InputFile::open(path);
  std::array<std::byte, 2> bytes{};
  if (file.size() < bytes.size()) return false;
  file.read_at(0, bytes);
  return std::ranges::equal(bytes, as_bytes(begin));
}

}  // namespace

std::string text_digest(const std::string& text) {
  Sha256 sha;
  sha.add(text.data(), text.size());
  return sha.finish();
}

std::string digest(const std::vector<NamedTensor>& tensors) {
  return digest_of_source(TensorSource::of(tensors));
}

std::string digest_of(const std::filesystem::path& path) {
  std::error_code ignored;
  if (is_distributed_checkpoint(path))
    return digest_of_source(open_distributed_checkpoint(path).tensors);
  if (!std::filesystem::is_directory(path, ignored))
    return digest_of_source(is_zip(path) ? open_torch_file(path).tensors
                                         : SafetensorsFile::open(path).source());
  return digest_of_source(
      open_complete_checkpoint(newest_complete_checkpoint(path).folder).source());
}

}  // namespace troupe
