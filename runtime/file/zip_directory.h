#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/file/zip.h"

namespace troupe::zip {

/// The members by the directory at the end of an archive, each compared with its own header. Throws
/// as ZipArchive::open.
std::vector<ZipMember> read_directory(std::span<const std::byte> bytes, const std::string& origin);

[[noreturn]] void fail(const std::string& origin, const std::string& what);

}  // namespace troupe::zip
