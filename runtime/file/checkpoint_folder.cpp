#include "runtime/file/checkpoint_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>

#include "runtime/file/manifest.h"

namespace troupe {
namespace {

constexpr std::string_view prefix = "step_";

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, step);
  if (error != std::errc{} || stop != end || name != checkpoint_name(step)) return std::nullopt;
  return step;
}

std::filesystem::path checkpoints_in(const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::filesystem::path below = folder / "checkpoints";
  return std::filesystem::is_directory(below, ignored) ? below : folder;
}

/// The names in a folder; the system's refusal as an Error.
Result<std::vector<std::string>> names_in(const std::filesystem::path& folder) {
  std::error_code failed;
  std::vector<std::string> names;
  std::filesystem::directory_iterator at(folder, failed);
  for (; !failed && at != std::filesystem::directory_iterator(); at.increment(failed))
    names.push_back(at->path().filename().string());
  if (failed) return system_error("listing folder", folder, failed.value());
  return names;
}

/// A reader's message without the folder, which the caller puts in front.
std::string below(const std::filesystem::path& folder, std::string text) {
  for (const std::string& name :
       {fmt::format("checkpoint '{}': ", folder.string()), folder.string() + "/"})
    for (std::size_t at; (at = text.find(name)) != std::string::npos;) text.erase(at, name.size());
  return text;
}

CheckpointInfo look_at(const std::filesystem::path& folder, std::int64_t step,
                       CheckpointCheck check) {
  CheckpointInfo info{folder, step, {}, 0, false, {}};
  try {
    const Checkpoint checkpoint = open_checkpoint(folder);
    const Manifest& manifest = checkpoint.manifest();
    if (manifest.step != step)
      throw Error(ErrorCode::bad_file, fmt::format("its manifest is of step {}", manifest.step));
    if (check == CheckpointCheck::content) checkpoint.verify();
    info.created = manifest.created;
    for (const ShardInfo& shard : manifest.shards) info.bytes += shard.summary.bytes;
    info.complete = true;
  } catch (const Error& error) {
    info.reason = below(folder, error.message());
  }
  return info;
}

struct Candidate {
  std::int64_t step;
  std::filesystem::path folder;
};

/// Oldest first, not looked into.
Result<std::vector<Candidate>> candidates_in(const std::filesystem::path& folder) {
  const Result<std::vector<std::string>> names = names_in(folder);
  if (!names) return names.error();
  std::vector<Candidate> found;
  for (const std::string& name : names.value())
    if (const auto step = step_of(name)) found.push_back({*step, folder / name});
  std::sort(found.begin(), found.end(),
            [](const Candidate& a, const Candidate& b) { return a.step < b.step; });
  return found;
}

/// Throws Error{io} if permissions do not let this process read the checkpoint: it may be whole.
void check_readable(const std::filesystem::path& folder) {
  const Result<std::vector<std::string>> names = names_in(folder);
  if (!names && ::access(folder.c_str(), F_OK | R_OK | X_OK) != 0 && errno == EACCES)
    throw names.error();
  if (!names) return;
  for (const std::string& name : names.value())
    if (::access((folder / name).c_str(), R_OK) != 0 && errno == EACCES)
      throw system_error("opening", folder / name, EACCES);
}

/// Takes the name away at once, then the files.
Status remove_checkpoint(const std::filesystem::path& folder) {
  const std::filesystem::path aside =
      folder.parent_path() / fmt::format(".{}.partial-removed", folder.filename().string());
  std::error_code failed;
  std::filesystem::remove_all(aside, failed);
  if (!failed) std::filesystem::rename(folder, aside, failed);
  if (!failed) std::filesystem::remove_all(aside, failed);
  if (failed) return system_error("removing", folder, failed.value());
  return success();
}

}  // namespace

std::string checkpoint_name(std::int64_t step) { return fmt::format("{}{:08}", prefix, step); }

std::vector<CheckpointInfo> list_checkpoints(const std::filesystem::path& folder,
                                             CheckpointCheck check) {
  Result<std::vector<Candidate>> candidates = candidates_in(checkpoints_in(folder));
  std::vector<CheckpointInfo> result;
  for (const Candidate& candidate : candidates.value())
    result.push_back(look_at(candidate.folder, candidate.step, check));
  return result;
}

Checkpoint open_complete_checkpoint(const std::filesystem::path& folder) {
  try {
    return open_checkpoint(folder);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::io) throw;
    std::string remedy = "there is no complete checkpoint in the same folder";
    auto whole = std::filesystem::absolute(folder).lexically_normal();
    if (!whole.has_filename()) whole = whole.parent_path();  // it ended in a slash
    for (const CheckpointInfo& other : list_checkpoints(whole.parent_path()))
      if (other.complete)
        remedy = fmt::format("the newest complete checkpoint in the same folder is {}",
                             other.folder.string());
    throw Error(
        ErrorCode::bad_file,
        fmt::format("the checkpoint {} is incomplete: {}", folder.string(), error.message()),
        remedy);
  }
}

CheckpointChoice newest_complete_checkpoint(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path / manifest_file, ignored) || step_of(path.filename().string()))
    return {path, {}};
  const std::filesystem::path folder = checkpoints_in(path);
  Result<std::vector<Candidate>> candidates = candidates_in(folder);
  CheckpointChoice choice;
  std::vector<std::string> reasons;
  std::vector<Candidate>& list = candidates.value();
  for (auto at = list.rbegin(); at != list.rend(); ++at) {
    const CheckpointInfo info = look_at(at->folder, at->step, CheckpointCheck::content);
    if (info.complete) {
      choice.folder = info.folder;
      return choice;
    }
    check_readable(info.folder);
    choice.skipped.push_back(fmt::format("{}: {}", info.folder.string(), info.reason));
    reasons.push_back(fmt::format("{}: {}", info.folder.filename().string(), info.reason));
  }
  if (choice.skipped.empty())
    throw Error(
        ErrorCode::bad_file,
        fmt::format("no checkpoint in {}: it has neither a manifest.json nor a folder step_*",
                    folder.string()),
        "give a checkpoint's folder or the output folder of a run that wrote one");
  throw Error(
      ErrorCode::bad_file,
      fmt::format("no complete checkpoint in {}: {}", folder.string(), fmt::join(reasons, "; ")),
      fmt::format("start a new run, or restore {} from a backup",
                  reasons.size() == 1 ? "it" : "one of them"));
}

Status prune_checkpoints(const std::filesystem::path& folder, const Retention& keep,
                         std::int64_t step) {
  const std::filesystem::path place = checkpoints_in(folder);
  const Result<std::vector<std::string>> names = names_in(place);
  if (!names) return names.error();
  for (const std::string& name : names.value()) {
    if (!AtomicFolder::is_staging_name(name)) continue;
    // Other processes may have begun with a later one: ".step_00000020.partial-shards".
    const auto begun = step_of(name.substr(1, checkpoint_name(0).size()));
    if (name.ends_with("-shards") && begun && *begun > step) continue;
    std::error_code failed;
    std::filesystem::remove_all(place / name, failed);
    if (failed) return system_error("removing", place / name, failed.value());
  }
  if (keep.newest == 0) return success();
  Result<std::vector<Candidate>> candidates = candidates_in(place);
  if (!candidates) return candidates.error();
  std::size_t complete = 0;
  std::vector<Candidate>& list = candidates.value();
  for (auto at = list.rbegin(); at != list.rend(); ++at) {
    if (at->step > step) continue;
    if (complete < keep.newest) {
      complete += look_at(at->folder, at->step, CheckpointCheck::structure).complete;
    } else if (at->step != keep.also) {
      if (Status status = remove_checkpoint(at->folder); !status) return status;
    }
  }
  return success();
}

}  // namespace troupe
