#include "ops/gpu_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>
#include <system_error>

#include "ops/devices.h"

namespace troupe {
namespace {

constexpr const char* library_name = "libtroupe_cuda.so";

std::vector<std::string> places() {
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  std::vector<std::string> result;
  for (const auto& folder : {program, program.parent_path() / "lib" / "troupe"})
    if (std::filesystem::exists(folder / library_name, ignored))
      result.push_back((folder / library_name).string());
  result.emplace_back(library_name);
  return result;
}

constexpr const char* other_library = "unset it, or name the library of this build";

/// Never closed: its backend lives as long as the process.
struct OpenedFile {
  void* library;
  std::string name;    ///< for errors
  std::string remedy;  ///< if it is another library
};

/// Why the file must not be opened; empty: it may. dlopen would wait for the other end of a pipe,
/// and end the process where it maps a part of the file that is not there.
std::string fault_of(const std::string& file) {
  std::error_code ignored;
  const bool is_searched_for = file.find('/') == std::string::npos;
  if (is_searched_for || !std::filesystem::exists(file, ignored)) return {};
  if (!std::filesystem::is_regular_file(file, ignored)) return "it is not a regular file";
  std::ifstream in(file, std::ios::binary);
  Elf64_Ehdr head{};
  if (!in.read(reinterpret_cast<char*>(&head), sizeof head)) return "it is not a shared library";
  if (!std::ranges::equal(std::span(head.e_ident, SELFMAG), std::string_view(ELFMAG))) return {};
  const std::uint64_t size = std::filesystem::file_size(file, ignored);
  in.seekg(static_cast<std::streamoff>(head.e_phoff));
  for (int i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr part{};
    if (!in.read(reinterpret_cast<char*>(&part), sizeof part) ||
        (part.p_type == PT_LOAD && part.p_offset + part.p_filesz > size))
      return fmt::format("it is truncated, to {} bytes", size);
  }
  return {};
}

Result<OpenedFile> open_named(const std::string& file) {
  const std::string name = fmt::format("TROUPE_CUDA_LIBRARY={}", file);
  std::string fault = fault_of(file);
  if (fault.empty()) {
    if (void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))
      return OpenedFile{library, name, other_library};
    fault = dlerror();
  }
  return no_gpu(fmt::format("{}: {}", name, fault), other_library);
}

bool has_nvidia_driver() {
  std::error_code ignored;
  return std::filesystem::exists("/proc/driver/nvidia", ignored) ||
         std::filesystem::exists("/dev/dxg", ignored);  // Windows' subsystem for Linux
}

Result<OpenedFile> open_file() {
  if (const char* named = std::getenv("TROUPE_CUDA_LIBRARY"); named && *named)
    return open_named(named);
  std::string reason;
  for (const std::string& place : places()) {
    if (const std::string fault = fault_of(place); !fault.empty())
      return no_gpu(fmt::format("{}: {}", place, fault), "build it again");
    if (void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL))
      return OpenedFile{library, place, "build it again"};
    reason = dlerror();
    if (place != library_name) return no_gpu(reason);  // it is there and cannot be opened
  }
  if (reason.starts_with(library_name))
    reason = has_nvidia_driver() ? "this build has no CUDA"
                                 : "this build has no CUDA, and this host has no NVIDIA driver";
  const Error missing = no_gpu(reason);
  return Error(ErrorCode::io, missing.message(), missing.remedy());
}

Result<const GpuLibrary*> open_library() {
  const Result<OpenedFile> file = open_file();
  if (!file) return file.error();
  const auto& [opened, name, remedy] = file.value();
  const auto version = reinterpret_cast<const char* (*)()>(dlsym(opened, "troupe_cuda_version"));
  const auto library =
      reinterpret_cast<const GpuLibrary* (*)()>(dlsym(opened, "troupe_cuda_library"));
  if (!version) return no_gpu(fmt::format("{}: it is not {}", name, library_name), remedy);
  if (std::string_view(version()) != TROUPE_VERSION || !library)
    return no_gpu(fmt::format("{} is of Troupe {}, this program of {}{}", name, version(),
                              TROUPE_VERSION, library ? "" : ", but of another build"),
                  "build both together");
  return library();
}

}  // namespace

bool runs_on(const GpuSurvey& library, int architecture) {
  if (library.architectures.empty() && library.ptx == 0) return true;
  return (library.ptx > 0 && library.ptx <= architecture) ||
         std::ranges::any_of(library.architectures, [&](int compiled) {
           return compiled / 10 == architecture / 10 && compiled <= architecture;
         });
}

std::string kernels_text(const GpuSurvey& library) {
  std::vector<std::string> kinds;
  for (const int architecture : library.architectures)
    kinds.push_back(fmt::format("sm_{}", architecture));
  std::string text = fmt::format("{}", fmt::join(kinds, ", "));
  if (library.ptx > 0)
    text += fmt::format("{}PTX of sm_{}", text.empty() ? "" : " and ", library.ptx);
  return text;
}

std::string build_for(int architecture) {
  return fmt::format("build with -DTROUPE_CUDA_ARCHITECTURES={}-real{}", architecture,
                     architecture < 75 ? " and CUDA 12" : "");
}

// The least driver of a major version of CUDA is in its release notes.
std::string fit_driver(int runtime, int driver) {
  const char* least = runtime / 1000 == 12   ? " to 525 or later"
                      : runtime / 1000 == 13 ? " to 580 or later"
                                             : "";
  constexpr int oldest_toolkit = 12;  // that Troupe can be built with
  const int serves = driver / 1000;
  return fmt::format(
      "update the driver{}{}", least,
      serves < oldest_toolkit ? "" : fmt::format(", or `build with CUDA {}`", serves));
}

Result<const GpuLibrary*> gpu_library() {
  static const Result<const GpuLibrary*> library = open_library();
  return library;
}

}  // namespace troupe
