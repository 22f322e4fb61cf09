#include "runtime/file/npz.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/error.h"
#include "runtime/file/file.h"
#include "runtime/file/gzip.h"
#include "runtime/file/npy.h"
#include "runtime/physical_memory.h"
#include "runtime/text.h"

namespace troupe {
namespace {

/// More than any header of numpy.save; a longer one is refused.
constexpr std::size_t most_header_bytes = std::size_t{1} << 16;

[[noreturn]] void fail(const std::string& origin, const std::string& what,
                       const std::string& remedy) {
  throw Error(ErrorCode::bad_file, fmt::format("reading NumPy archive '{}': {}", origin, what),
              remedy);
}

constexpr const char* write_again = "the file is damaged: write it again with numpy.savez";

/// A member while it is unpacked.
class Member {
 public:
  Member(zip_t* archive, zip_uint64_t index, std::string origin)
      : origin_(std::move(origin)), file_(zip_fopen_index(archive, index, 0), zip_fclose) {
    if (file_ == nullptr) fail(origin_, zip_strerror(archive), write_again);
  }
  /// Fills all of `out`.
  void read(std::span<std::byte> out) {
    while (!out.empty()) {
      const std::size_t got = read_some(out);
      if (got == 0) fail(origin_, fmt::format("it ends {} bytes early", out.size()), write_again);
      out = out.subspan(got);
    }
  }
  /// Throws unless the data end here; libzip verifies the checksum there.
  void expect_end() {
    std::byte further{};
    if (read_some({&further, 1}) != 0) fail(origin_, "it has more bytes than stated", write_again);
  }

 private:
  std::size_t read_some(std::span<std::byte> out) {
    constexpr std::size_t most = std::size_t{1} << 30;  // libzip loses what exceeds 32 bits
    const zip_int64_t got = zip_fread(file_.get(), out.data(), std::min(out.size(), most));
    if (got < 0) fail(origin_, zip_file_strerror(file_.get()), write_again);
    return static_cast<std::size_t>(got);
  }

  std::string origin_;
  std::unique_ptr<zip_file_t, decltype(&zip_fclose)> file_;
};

}  // namespace

struct NpzArchive::State {
  std::string origin;
  std::shared_ptr<const MappedFile> file;
  std::unique_ptr<zip_t, decltype(&zip_discard)> zip{nullptr, zip_discard};

  std::optional<zip_uint64_t> find(const std::string& name) const {
    const zip_int64_t index = zip_name_locate(zip.get(), name.c_str(), 0);
    return index < 0 ? std::nullopt : std::optional(static_cast<zip_uint64_t>(index));
  }
};

NpzArchive::NpzArchive(const std::filesystem::path& path) : state_(std::make_unique<State>()) {
  state_->origin = path.string();
  state_->file = MappedFile::open(path);
  const std::span<const std::byte> bytes = state_->file->bytes();
  zip_error_t error;
  zip_error_init(&error);
  const auto refuse = [&] {
    const std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    fail(state_->origin, reason, "give a file that numpy.savez has written");
  };
  zip_source_t* const source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  if (source == nullptr) refuse();
  // Which compares the headers of the members with the directory.
  state_->zip.reset(zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error));
  if (state_->zip == nullptr) {
    zip_source_free(source);
    refuse();
  }
  zip_error_fini(&error);
}

NpzArchive::~NpzArchive() = default;

std::vector<std::string> NpzArchive::names() const {
  std::vector<std::string> names;
  const zip_int64_t count = zip_get_num_entries(state_->zip.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i)
    if (const char* name = zip_get_name(state_->zip.get(), static_cast<zip_uint64_t>(i), 0))
      names.push_back(printable(name));
  return names;
}

bool NpzArchive::contains(const std::string& name) const { return state_->find(name).has_value(); }

Tensor NpzArchive::read(const std::string& name) const {
  const std::string origin = fmt::format("{} in {}", printable(name), state_->origin);
  zip_t* const zip = state_->zip.get();
  const auto index = state_->find(name);
  if (!index)
    fail(state_->origin, fmt::format("it has no {}", printable(name)),
         fmt::format("it has {}", listed(names())));
  zip_stat_t stat;
  if (zip_stat_index(zip, *index, 0, &stat) != 0) fail(origin, zip_strerror(zip), write_again);
  constexpr zip_uint64_t needed =
      ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if ((stat.valid & needed) != needed) fail(origin, "its size is not stated", write_again);
  if (stat.encryption_method != ZIP_EM_NONE)
    fail(origin, "it is encrypted", "write it again with numpy.savez");
  if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE)
    fail(origin, fmt::format("it is compressed by method {}", stat.comp_method),
         "write it again with numpy.savez or numpy.savez_compressed");

  std::vector<std::byte> header(std::min<std::uint64_t>(stat.size, most_header_bytes));
  Member(zip, *index, origin).read(header);
  if (const std::uint64_t stated = npy_file_bytes(header, origin); stated != stat.size)
    fail(origin, fmt::format("its array needs {} bytes, but it has {}", stated, stat.size),
         write_again);
  if (stat.size > physical_memory_bytes())
    fail(origin,
         fmt::format("it has {} bytes, but this host has a memory of {}", stat.size,
                     physical_memory_bytes()),
         "save the array with numpy.save: such files need not fit into memory");
  const std::uint64_t ratio = stat.comp_method == ZIP_CM_DEFLATE ? gzip_largest_ratio : 1;
  if (stat.size / ratio > stat.comp_size)
    fail(origin, fmt::format("it states {} bytes, unpacked from {}", stat.size, stat.comp_size),
         write_again);
  const Tensor bytes =
      Tensor::empty(Shape{static_cast<std::int64_t>(stat.size)}, DType::u8, Device::cpu());
  const std::span<std::byte> whole(bytes.raw(), bytes.bytes());
  Member member(zip, *index, origin);
  member.read(whole);
  member.expect_end();
  return parse_npy(whole, std::make_shared<Tensor>(bytes), origin);
}

}  // namespace troupe
