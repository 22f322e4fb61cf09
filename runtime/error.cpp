#include "runtime/error.h"

namespace troupe {
namespace {

std::string sentence(const std::string& message, const std::string& remedy) {
  return remedy.empty() ? message : message + "; " + remedy;
}

}  // namespace

Error::Error(ErrorCode code, std::string message, std::string remedy)
    : std::runtime_error(sentence(message, remedy)),
      code_(code),
      message_(std::move(message)),
      remedy_(std::move(remedy)) {}

}  // namespace troupe
