#include "runtime/file/hdf5_library.h"

#include <fmt/format.h>

#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe::hdf5 {

std::unique_lock<std::mutex> library_lock() {
  static std::mutex mutex;
  std::unique_lock lock(mutex);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // it would print its errors
  H5PLset_loading_state(0);
  return lock;
}

std::string library_reason() {
  std::string reason;
  const auto keep_innermost = [](unsigned, const H5E_error2_t* error, void* into) -> herr_t {
    try {
      if (error->desc != nullptr && *error->desc != '\0')
        *static_cast<std::string*>(into) = printable(error->desc);
    } catch (...) {  // not through libhdf5's frames, which are C
      return -1;
    }
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_innermost, &reason);
  return reason.empty() ? "libhdf5 names no reason" : reason;
}

std::string title(const std::string& origin) {
  return fmt::format("reading HDF5 file '{}'", origin);
}

void fail(const std::string& origin, const std::string& what, const std::string& remedy) {
  throw Error(ErrorCode::bad_file, fmt::format("{}: {}", title(origin), what), remedy);
}

}  // namespace troupe::hdf5
