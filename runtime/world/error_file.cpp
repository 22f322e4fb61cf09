#include "runtime/world/error_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/text.h"

namespace troupe {
namespace {

constexpr const char* peer_lost = "peer_lost";
constexpr std::size_t longest_file = 1 << 20, longest_text = 16 << 10;

std::string beginning(const std::string& text) {
  return printable(text, longest_text, "\n\t") + (text.size() > longest_text ? " ..." : "");
}

/// A member that is a text, or a number written as one.
std::string text_in(const nlohmann::json& object, const char* name) {
  if (!object.is_object() || !object.contains(name)) return {};
  const auto& value = object[name];
  return value.is_string() ? value.get<std::string>() : value.is_number() ? value.dump() : "";
}

}  // namespace

void report_to_launcher(const Error& error, bool is_printed) {
  const char* file = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (file == nullptr || *file == '\0') return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  write_error_file(file,
                   {.message = error.message(),
                    .details = error.remedy().empty() ? "" : fmt::format("try: {}", error.remedy()),
                    .time = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
                    .is_consequence = error.code() == ErrorCode::peer_lost,
                    .is_printed = is_printed});
}

bool write_error_file(const std::filesystem::path& file, const ReportedError& reported) {
  // torchrun shows the call stack alone.
  nlohmann::json extra = {{"py_callstack", reported.message + "\n" + reported.details},
                          {"timestamp", std::to_string(reported.time)}};
  if (reported.is_consequence) extra["kind"] = peer_lost;
  if (reported.is_printed) extra["printed"] = true;
  const nlohmann::json content = {
      {"message", {{"message", reported.message}, {"extraInfo", extra}}}};
  const auto part = file.string() + fmt::format(".{}", ::getpid());
  std::ofstream stream(part);
  stream << content.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  stream.close();
  std::error_code failed;
  if (stream) std::filesystem::rename(part, file, failed);
  return stream.good() && !failed;
}

std::optional<ReportedError> read_error_file(const std::filesystem::path& file) {
  std::error_code failed;
  const auto size = std::filesystem::file_size(file, failed);
  if (failed || size == 0 || size > longest_file) return std::nullopt;
  std::ifstream stream(file);
  const auto content = nlohmann::json::parse(stream, nullptr, false);
  if (!content.is_object() || !content.contains("message")) return std::nullopt;
  // A plain text instead of an object is the older format.
  const auto& message = content["message"];
  ReportedError reported;
  reported.message =
      beginning(message.is_object() ? text_in(message, "message") : text_in(content, "message"));
  if (message.is_object() && message.contains("extraInfo")) {
    const auto& extra = message["extraInfo"];
    std::string details = text_in(extra, "py_callstack");
    if (details.starts_with(text_in(message, "message") + "\n"))  // as Troupe writes it
      details.erase(0, text_in(message, "message").size() + 1);
    reported.details = beginning(details);
    reported.is_consequence = text_in(extra, "kind") == peer_lost;
    reported.is_printed = extra.is_object() && extra.value("printed", nlohmann::json()) == true;
    reported.time = std::atoll(text_in(extra, "timestamp").c_str());
  }
  if (reported.message.empty()) return std::nullopt;
  return reported;
}

}  // namespace troupe
