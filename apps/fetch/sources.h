#pragma once
// The data sets that `troupe fetch` downloads: files, sizes, checksums and servers. To add one,
// append it to the table in sources.cpp; the reader of that name looks in dataset_folder(name).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

struct FetchFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string md5;  ///< 32 lower-case hexadecimal digits, as torchvision checks them
};

struct FetchSource {
  std::string name;                  ///< that of the data set
  std::vector<std::string> mirrors;  ///< URLs that end in "/", in the order of preference
  std::vector<FetchFile> files;
};

const std::vector<FetchSource>& fetch_sources();

/// Null for a name that is not in the table.
const FetchSource* find_fetch_source(std::string_view name);

}  // namespace troupe
