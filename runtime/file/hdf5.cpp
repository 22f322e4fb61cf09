#include "runtime/file/hdf5.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "runtime/error.h"
#include "runtime/file/file.h"
#include "runtime/file/hdf5_layout.h"
#include "runtime/file/hdf5_library.h"
#include "runtime/text.h"

namespace troupe {

using hdf5::fail;
using hdf5::Id;
using hdf5::library_lock;
using hdf5::library_reason;
using hdf5::SetLayout;

struct Hdf5File::State {
  explicit State(const std::filesystem::path& file_path)
      : path(file_path.string()), mapped(MappedFile::open(file_path)) {}
  ~State() {
    const auto lock = library_lock();
    file.reset();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::uint64_t bytes() const { return mapped->bytes().size(); }
  std::string origin(const std::string& name) const {
    return fmt::format("{} in {}", printable(name), path);
  }
  bool has(const std::string& name) const;
  /// The data set of that name, where hard links lead to it; the lock is held.
  Id open(const std::string& name) const;

  std::string path;
  std::shared_ptr<const MappedFile> mapped;
  std::optional<Id> file;
};

namespace {

/// An open data set, which keeps its file open.
struct OpenSet {
  OpenSet(std::shared_ptr<const void> file, Id id) : file(std::move(file)), id(std::move(id)) {}
  ~OpenSet() {
    const auto lock = library_lock();
    id.reset();
  }
  OpenSet(const OpenSet&) = delete;
  OpenSet& operator=(const OpenSet&) = delete;

  std::shared_ptr<const void> file;
  std::optional<Id> id;
};

/// The names in a group; the lock is held.
std::vector<std::string> names_in(hid_t group) {
  constexpr hsize_t most = 100;
  std::vector<std::string> names;
  H5G_info_t info;
  if (H5Gget_info(group, &info) < 0) return names;
  for (hsize_t i = 0; i < std::min(info.nlinks, most); ++i) {
    char name[256] = {};
    if (H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name,
                           H5P_DEFAULT) < 0)
      break;
    names.push_back(printable(name));
  }
  return names;
}

/// The data set of that name; the lock is held.
Id open_set(hid_t file, const std::string& name, const std::string& origin) {
  Id object(H5Oopen(file, name.c_str(), H5P_DEFAULT), H5Oclose);
  if (!object) fail(origin, "it cannot be opened: " + library_reason(), hdf5::damaged);
  const H5I_type_t kind = H5Iget_type(object.get());
  if (kind == H5I_GROUP) {
    const std::vector<std::string> names = names_in(object.get());
    if (names.empty()) fail(origin, "it is an empty group", "give the name of a data set");
    fail(origin, "it is a group, not a data set",
         fmt::format("name a data set in it, with its path: it has {}", listed(names, 8)));
  }
  if (kind != H5I_DATASET) fail(origin, "it is not a data set", "give the name of a data set");
  return object;
}

struct StoredChunk {
  std::vector<std::byte> bytes;
  std::uint32_t skipped = 0;  ///< a bit for each filter that was not applied
};

bool reaches_beyond(const SetLayout& layout, const ChunkedArray::Place& first) {
  for (int axis = 0; axis < layout.shape.rank(); ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    if (first[i] + layout.chunk[i] > layout.shape[axis]) return true;
  }
  return false;
}

/// Reads a packed chunk; takes the lock.
StoredChunk fetch_chunk(const OpenSet& set, const SetLayout& layout,
                        const ChunkedArray::Place& first, const std::string& origin) {
  const auto lock = library_lock();
  std::array<hsize_t, Shape::max_rank> offset{};
  std::ranges::copy(first, offset.begin());
  hsize_t size = 0;
  if (H5Dget_chunk_info_by_coord(set.id->get(), offset.data(), nullptr, nullptr, &size) < 0)
    fail(origin, "a chunk cannot be found: " + library_reason(), hdf5::damaged);
  if (size == 0)
    fail(origin, fmt::format("its rows from {} on were never written", first[0]),
         "write all samples, or make the array smaller");
  if (size > hdf5::most_stored_bytes(layout.chunk_bytes()))
    fail(origin, fmt::format("a chunk of {} bytes is stored in {}", layout.chunk_bytes(), size),
         hdf5::damaged);
  StoredChunk stored{std::vector<std::byte>(size)};
  if (H5Dread_chunk(set.id->get(), H5P_DEFAULT, offset.data(), &stored.skipped,
                    stored.bytes.data()) < 0)
    fail(origin, "a chunk cannot be read: " + library_reason(), hdf5::damaged);
  constexpr std::uint32_t all = 0xffffffff;  // the library does not say that it left them out
  if (!layout.filters_edges && reaches_beyond(layout, first)) stored.skipped = all;
  return stored;
}

/// Elements that are in the file as they are in memory, or null.
std::optional<Tensor> mapped(const SetLayout& layout,
                             const std::shared_ptr<const MappedFile>& file) {
  const auto data = file->bytes().data() + layout.offset;
  if (layout.kind != SetLayout::Kind::contiguous || layout.swapped ||
      reinterpret_cast<std::uintptr_t>(data) % size_of(layout.dtype) != 0)
    return std::nullopt;
  const std::size_t bytes =
      static_cast<std::size_t>(layout.shape.element_count()) * size_of(layout.dtype);
  auto storage = Storage::wrap(const_cast<std::byte*>(data), bytes, Device{}, file);
  return Tensor::view(std::move(storage), 0, layout.shape, layout.dtype);
}

}  // namespace

/// Follows hard links alone: others lead to other files, to places that change, or in circles.
bool Hdf5File::State::has(const std::string& name) const {
  for (std::size_t end = 0; end != name.npos;) {
    end = name.find('/', end + 1);
    const std::string part = name.substr(0, end);
    if (part.empty() || part.ends_with('/')) return false;
    if (H5Lexists(file->get(), part.c_str(), H5P_DEFAULT) <= 0) return false;
    H5L_info_t link;
    if (H5Lget_info(file->get(), part.c_str(), &link, H5P_DEFAULT) < 0) return false;
    if (link.type != H5L_TYPE_HARD)
      fail(path,
           fmt::format("{} is {} link", printable(part),
                       link.type == H5L_TYPE_SOFT ? "a soft" : "an external"),
           "give the path of the data set itself, in the file that has it");
  }
  return true;
}

Id Hdf5File::State::open(const std::string& name) const {
  if (!has(name)) fail(origin(name), "it does not exist", "give the name of a data set");
  return open_set(file->get(), name, origin(name));
}

Hdf5File::Hdf5File(const std::filesystem::path& path) : state_(std::make_shared<State>(path)) {
  const auto bytes = state_->mapped->bytes();
  if (std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())
          .starts_with("CDF"))
    fail(state_->path, "it is a file of netCDF's classic format",
         "convert it to netCDF-4, which is HDF5: nccopy -k nc4 OLD NEW");
  const auto lock = library_lock();
  const Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_file_locking(access.get(), false, true);  // some file systems of clusters have no locks
  H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG);
  Id file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  if (!file)
    fail(state_->path, library_reason(),
         "give an HDF5 file; if it is one, it is truncated or damaged: write it again");
  state_->file.emplace(std::move(file));
}

std::vector<std::string> Hdf5File::names() const {
  const auto lock = library_lock();
  return names_in(state_->file->get());
}

bool Hdf5File::contains(const std::string& name) const {
  const auto lock = library_lock();
  return state_->has(name);
}

TensorInfo Hdf5File::header(const std::string& name) const {
  const std::string origin = state_->origin(name);
  const auto lock = library_lock();
  const SetLayout layout = hdf5::layout_of(state_->open(name), state_->bytes(), origin);
  return {name, layout.dtype, layout.shape};
}

ArrayAccess Hdf5File::access(const std::string& name) const {
  const std::string origin = state_->origin(name);
  const auto lock = library_lock();
  const SetLayout layout = hdf5::layout_of(state_->open(name), state_->bytes(), origin);
  if (layout.kind == SetLayout::Kind::chunked) return ArrayAccess::by_row;
  const bool is_empty = layout.shape.element_count() == 0;
  return !is_empty && mapped(layout, state_->mapped) ? ArrayAccess::mapped : ArrayAccess::whole;
}

std::shared_ptr<const ChunkedArray> Hdf5File::chunked(const std::string& name) const {
  const std::string origin = state_->origin(name);
  std::shared_ptr<OpenSet> set;
  SetLayout layout;
  {
    const auto lock = library_lock();
    Id id = state_->open(name);
    layout = hdf5::layout_of(id, state_->bytes(), origin);
    if (layout.kind != SetLayout::Kind::chunked || layout.shape.element_count() == 0)
      return nullptr;
    set = std::make_shared<OpenSet>(state_, std::move(id));
  }
  return std::make_shared<ChunkedArray>(
      layout, [set, layout, origin](const ChunkedArray::Place& first) {
        StoredChunk stored = fetch_chunk(*set, layout, first, origin);
        return hdf5::unfiltered(std::move(stored.bytes), layout.filters, stored.skipped,
                                layout.chunk_bytes(), size_of(layout.dtype), origin);
      });
}

Tensor Hdf5File::read(const std::string& name) const {
  const std::string origin = state_->origin(name);
  if (const auto chunks = chunked(name)) return chunks->read_all(hdf5::title(origin));
  const auto lock = library_lock();
  const Id set = state_->open(name);
  const SetLayout layout = hdf5::layout_of(set, state_->bytes(), origin);
  if (layout.shape.element_count() == 0) return Tensor::empty(layout.shape, layout.dtype, {});
  if (const auto tensor = mapped(layout, state_->mapped)) return *tensor;
  Tensor all = memory_for(layout.shape, layout.dtype, hdf5::title(origin));
  const Id type(H5Dget_type(set.get()), H5Tclose);
  if (H5Dread(set.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, all.raw()) < 0)
    fail(origin, "it cannot be read: " + library_reason(), hdf5::damaged);
  if (layout.swapped) swap_bytes({all.raw(), all.bytes()}, size_of(layout.dtype));
  return all;
}

}  // namespace troupe
