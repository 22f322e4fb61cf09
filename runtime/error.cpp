#include "runtime/error.h"

#include <cstdint>

#include "runtime/text.h"

namespace troupe {
namespace {

// Names in it may come from files: none of them moves the cursor of a terminal, or forges a line of
// a log.
std::string plain(const std::string& text) { return printable(text, SIZE_MAX, "\n\t"); }

std::string sentence(const std::string& message, const std::string& remedy) {
  return remedy.empty() ? message : message + "; " + remedy;
}

}  // namespace

Error::Error(ErrorCode code, std::string message, std::string remedy)
    : std::runtime_error(sentence(plain(message), plain(remedy))),
      code_(code),
      message_(plain(message)),
      remedy_(plain(remedy)) {}

}  // namespace troupe
