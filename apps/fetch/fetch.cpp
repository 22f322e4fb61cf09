// troupe fetch: downloads a data set into the folder where its reader looks.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "actors/data/dataset_folder.h"
#include "apps/command.h"
#include "apps/fetch/fetch_file.h"
#include "apps/fetch/sources.h"
#include "apps/fetch/transfer_display.h"
#include "apps/verbs.h"
#include "runtime/error.h"
#include "runtime/file/file.h"
#include "runtime/print.h"
#include "runtime/shell_text.h"
#include "runtime/stop_signal.h"
#include "runtime/text.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

struct FetchArguments {
  std::string name;
  fs::path output;
  std::string url;
  int timeout = 30;
  bool force = false;
};

std::string names_of_sources() {
  std::string names;
  for (const FetchSource& source : fetch_sources())
    names += (names.empty() ? "" : ", ") + source.name;
  return names;
}

FetchSource source_of(const FetchArguments& arguments) {
  const FetchSource* known = find_fetch_source(arguments.name);
  if (known == nullptr) {
    std::vector<std::string_view> names;
    for (const FetchSource& source : fetch_sources()) names.push_back(source.name);
    throw Error(ErrorCode::usage, fmt::format("no data set to fetch: {}", arguments.name),
                did_you_mean(arguments.name, names, "the names are " + names_of_sources()));
  }
  FetchSource source = *known;
  if (arguments.url.empty()) return source;
  if (!arguments.url.starts_with("https://") && !arguments.url.starts_with("http://"))
    throw Error(ErrorCode::usage, fmt::format("--url is {}", arguments.url),
                "give a URL that begins with https:// or http://, to which the names of the files "
                "are appended");
  source.mirrors = {arguments.url + (arguments.url.ends_with('/') ? "" : "/")};
  return source;
}

/// A folder and those above it that did not exist. Those that hold nothing are removed at the end.
class NewFolders {
 public:
  explicit NewFolders(const fs::path& folder) {
    std::error_code error;
    for (fs::path path = fs::absolute(folder); !fs::exists(path, error); path = path.parent_path())
      created_.push_back(path);
    fs::create_directories(folder, error);
    if (error) throw system_error("creating folder", folder, error.value());
  }
  ~NewFolders() {
    for (const fs::path& path : created_)
      if (::rmdir(path.c_str()) != 0) return;  // refuses a folder with content
  }
  NewFolders(const NewFolders&) = delete;
  NewFolders& operator=(const NewFolders&) = delete;

 private:
  std::vector<fs::path> created_;  // inner ones first
};

fs::path folder_of(const FetchArguments& arguments) {
  fs::path folder = arguments.output.empty() ? dataset_folder(arguments.name) : arguments.output;
  if (folder.empty())
    throw Error(ErrorCode::usage, "neither HOME nor TROUPE_DATA is set", "give the folder with -o");
  return folder;
}

/// Returns false if it was stopped.
bool fetch_one(const FetchSource& source, const FetchFile& file, const fs::path& folder,
               const FetchArguments& arguments, const std::stop_token& stop) {
  using Clock = TransferDisplay::Clock;
  TransferDisplay display(stdout, ProgressStyle::of(stdout), file.name, file.bytes, Clock::now());
  Fetched fetched;
  try {
    fetched = fetch_file(source, file, folder, arguments.force,
                         {.timeout = std::chrono::seconds(arguments.timeout),
                          .stop = stop,
                          .progress = [&](auto have) { display.show(have, Clock::now()); }});
  } catch (...) {
    display.finish();
    throw;
  }
  display.finish();
  if (fetched.how == Fetched::How::stopped) return false;
  if (fetched.how == Fetched::How::already_there)
    print_out("{}: already there\n", file.name);
  else
    print_out("{}: {} from {}\n", file.name, decimal_bytes(file.bytes), fetched.from);
  return true;
}

int fetch(const FetchArguments& arguments, const std::string& command_line) {
  const FetchSource source = source_of(arguments);
  const fs::path folder = folder_of(arguments);
  const NewFolders new_folders(folder);
  std::stop_source stop;
  const StopSignal on_signal([&stop] { stop.request_stop(); });
  for (const FetchFile& file : source.files)
    if (!fetch_one(source, file, folder, arguments, stop.get_token())) {
      print_error("stopped; what has arrived is kept in {}. To resume: {}\n", folder.string(),
                  command_line);
      return exit_stopped;
    }
  const std::string option =
      folder == dataset_folder(source.name)
          ? ""
          : fmt::format("; train with -r {}", shell_word("data.path=" + folder.string()));
  print_out("{} is in {}{}\n", source.name, folder.string(), option);
  return exit_done;
}

}  // namespace

void add_fetch_verb(CLI::App& app, ChosenVerb& chosen) {
  auto arguments = std::make_shared<FetchArguments>();
  CLI::App* verb = app.add_subcommand("fetch", "Download a data set");
  verb->add_option("NAME", arguments->name, names_of_sources())->required();
  verb->add_option("-o,--output", arguments->output,
                   "folder for the files (NAME in $TROUPE_DATA, else in ~/.local/share/troupe)")
      ->type_name("FOLDER");
  verb->add_option("--url", arguments->url, "base URL of a mirror")->type_name("URL");
  verb->add_option("--timeout", arguments->timeout,
                   "end the download after this time without data (30)")
      ->check(CLI::Range(1, 3600))
      ->option_text("SECONDS");
  verb->add_flag("--force", arguments->force,
                 "replace existing files that have a different checksum");
  verb->callback([arguments, &chosen] {
    chosen = [arguments](const Invocation& call) { return fetch(*arguments, call.command_line); };
  });
}

}  // namespace troupe
