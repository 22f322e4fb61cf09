#include "runtime/tensor/layout.h"

namespace troupe {

std::string_view name_of(Layout layout) {
  switch (layout) {
    case Layout::row_major:
      return "row_major";
    case Layout::nhwc:
      return "nhwc";
    case Layout::nchw16c:
      return "nchw16c";
  }
  return "unknown layout";
}

}  // namespace troupe
