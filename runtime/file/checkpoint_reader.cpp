#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "runtime/file/checkpoint.h"
#include "runtime/file/manifest.h"
#include "runtime/file/parallel.h"

namespace troupe {

namespace {

/// Where a tensor lies.
struct Place {
  const ShardReader* shard = nullptr;
  const ShardEntry* entry = nullptr;
  const MappedFile* file = nullptr;

  /// A block that was read is not needed again: checkpoints may be larger than the memory.
  void forget(std::size_t block) const {
    const std::uint64_t begin = entry->begins[block];
    file->forget(begin, entry->begins[block + 1] - begin);
  }
};

/// A block of one of several tensors.
struct Job {
  std::size_t tensor;
  std::size_t block;
};

std::vector<Job> jobs_of(const std::vector<Place>& places) {
  std::vector<Job> jobs;
  for (std::size_t tensor = 0; tensor < places.size(); ++tensor)
    for (std::size_t block = 0; block < places[tensor].entry->blocks(); ++block)
      jobs.push_back({tensor, block});
  return jobs;
}

}  // namespace

struct Checkpoint::State {
  std::filesystem::path folder;
  Manifest manifest;
  std::vector<std::shared_ptr<const MappedFile>> files;
  std::vector<ShardReader> shards;    ///< of each of them
  std::vector<StoredTensor> tensors;  ///< sorted by name
  std::vector<Place> places;          ///< of each of them

  void add_shard(const ShardInfo& info);
  void collect();
  const Place& find(const std::string& name) const;
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::bad_file, fmt::format("checkpoint '{}': {}", folder.string(), what),
                "it is damaged: use another checkpoint");
  }
};

void Checkpoint::State::add_shard(const ShardInfo& info) {
  const auto file = MappedFile::open(folder / info.file);
  if (file->bytes().size() != info.summary.bytes)
    fail(fmt::format("shard '{}' has {} bytes, its manifest says {}", info.file,
                     file->bytes().size(), info.summary.bytes));
  files.push_back(file);
  shards.emplace_back(file->bytes(), file->path().string(), file);
  if (shards.back().index_checksum() != info.summary.index_checksum)
    fail(
        fmt::format("shard '{}' belongs to another checkpoint: its index has the checksum "
                    "{:016x}, its manifest says {:016x}",
                    info.file, shards.back().index_checksum(), info.summary.index_checksum));
}

void Checkpoint::State::collect() {
  struct Found {
    StoredTensor tensor;
    Place place;
  };
  std::vector<Found> all;
  for (std::size_t s = 0; s < shards.size(); ++s)
    for (const ShardEntry& entry : shards[s].entries())
      all.push_back(
          {{entry.name, entry.dtype, entry.shape, manifest.shards[s].stage, entry.stored_bytes()},
           {&shards[s], &entry, files[s].get()}});
  std::sort(all.begin(), all.end(),
            [](const Found& a, const Found& b) { return a.tensor.name < b.tensor.name; });
  for (Found& found : all) {
    if (!tensors.empty() && tensors.back().name == found.tensor.name)
      fail(fmt::format("tensor '{}' is in two shards", found.tensor.name));
    tensors.push_back(std::move(found.tensor));
    places.push_back(found.place);
  }
}

const Place& Checkpoint::State::find(const std::string& name) const {
  const auto found = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const StoredTensor& tensor, const std::string& wanted) { return tensor.name < wanted; });
  if (found == tensors.end() || found->name != name)
    throw Error(
        ErrorCode::bad_file,
        fmt::format("checkpoint '{}' has no tensor '{}' among its {}", folder.string(), name,
                    tensors.size()),
        "it belongs to another model: check that of this run against the checkpoint's manifest");
  return places[static_cast<std::size_t>(found - tensors.begin())];
}

const Manifest& Checkpoint::manifest() const { return state_->manifest; }
const std::vector<StoredTensor>& Checkpoint::tensors() const { return state_->tensors; }

TensorSource Checkpoint::source() const {
  TensorSource source;
  for (const StoredTensor& stored : tensors())
    source.tensors.push_back({stored.name, stored.dtype, stored.shape});
  source.read = [checkpoint = *this](const std::string& name) {
    return load_tensors(checkpoint, std::span(&name, 1)).front().tensor;
  };
  return source;
}

void Checkpoint::verify(int threads) const {
  const std::vector<Job> jobs = jobs_of(state_->places);
  parallel_for(jobs.size(), threads, [&](std::size_t index, std::size_t) {
    const Place& place = state_->places[jobs[index].tensor];
    place.shard->verify_block(*place.entry, jobs[index].block);
    place.forget(jobs[index].block);
  });
}

Checkpoint open_checkpoint(const std::filesystem::path& folder) {
  const auto state = std::make_shared<Checkpoint::State>();
  state->folder = folder;
  const auto file = MappedFile::open(folder / manifest_file);
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()),
                              file->bytes().size());
  state->manifest = parse_manifest(text, file->path().string());
  state->shards.reserve(state->manifest.shards.size());
  for (const ShardInfo& shard : state->manifest.shards) state->add_shard(shard);
  state->collect();
  Checkpoint result;
  result.state_ = state;
  return result;
}

std::vector<NamedTensor> load_tensors(const Checkpoint& checkpoint,
                                      std::span<const std::string> names, int threads) {
  std::vector<Place> places;
  std::vector<NamedTensor> result;
  for (const std::string& name : names) {
    places.push_back(checkpoint.state_->find(name));
    const ShardEntry& entry = *places.back().entry;
    result.push_back({name, Tensor::empty(entry.shape, entry.dtype, Device::cpu())});
  }
  const std::vector<Job> jobs = jobs_of(places);
  std::vector<BlockScratch> scratch(static_cast<std::size_t>(std::max(threads, 1)));
  parallel_for(jobs.size(), threads, [&](std::size_t index, std::size_t worker) {
    const auto [tensor, block] = jobs[index];
    const Place& place = places[tensor];
    place.shard->load_block(*place.entry, block, result[tensor].tensor, scratch[worker]);
    place.forget(block);
  });
  return result;
}

std::vector<NamedTensor> load_tensors(const Checkpoint& checkpoint, int threads) {
  std::vector<std::string> names;
  for (const StoredTensor& tensor : checkpoint.tensors()) names.push_back(tensor.name);
  return load_tensors(checkpoint, names, threads);
}

}  // namespace troupe
