#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "apps/fetch/sources.h"
#include "apps/fetch/transfer.h"

namespace troupe {

/// How a file came to be in its folder.
struct Fetched {
  enum class How : std::uint8_t { already_there, downloaded, stopped };
  How how = How::already_there;
  std::string from;  ///< the URL, if downloaded
};

/// Brings a file of the data set `source` into `folder`, which exists. Downloads it from the first
/// mirror that sends it, into NAME.part, resumes what an earlier attempt has left there, checks
/// size and MD5, and renames it. A file that is already there is checked and kept, or with `force`
/// replaced unless it is correct.
/// Throws Error: bad_file for another file under this name, io if no mirror sends the file (and how
/// to get it otherwise), for a full disk, and if another process downloads the same file.
Fetched fetch_file(const FetchSource& source, const FetchFile& file,
                   const std::filesystem::path& folder, bool force, const TransferOptions& options);

}  // namespace troupe
