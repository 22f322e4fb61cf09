// troupe options: the keys of an options file, or what a file resolves to.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/options/load_options.h"
#include "apps/options/options_table.h"
#include "apps/verbs.h"
#include "runtime/print.h"

namespace troupe {
namespace {

struct OptionsArguments {
  std::filesystem::path file;
  std::vector<std::string> overrides;
  bool markdown = false;
};

int print_options(const OptionsArguments& arguments, const Definitions& own) {
  if (arguments.file.empty() && arguments.overrides.empty()) {
    print_out("{}", arguments.markdown ? options_markdown(own) : options_listing(own));
    return exit_done;
  }
  if (arguments.overrides.empty() && !std::filesystem::is_regular_file(arguments.file))
    if (const std::string listing = options_listing(own, arguments.file.string());
        !listing.empty()) {
      print_out("{}", listing);
      return exit_done;
    }
  const Options options = arguments.file.empty()
                              ? parse_options("", "defaults", arguments.overrides, own)
                              : load_options(arguments.file, arguments.overrides, own);
  for (const std::string& warning : options.warnings) print_warning("{}", warning);
  print_out("{}", resolved_yaml(options));
  return exit_done;
}

}  // namespace

void add_options_verb(CLI::App& app, ChosenVerb& chosen) {
  auto arguments = std::make_shared<OptionsArguments>();
  CLI::App* verb = app.add_subcommand(
      "options", "List all options, one of them, or the resolved options of a file");
  verb->add_option("FILE", arguments->file,
                   "options file to check; or a key or a section, as train.lr or train");
  verb->add_option("-r,--override", arguments->overrides, "overrides the file (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  verb->add_flag("--markdown", arguments->markdown, "print the page docs/options.md");
  verb->callback([arguments, &chosen] {
    chosen = [arguments](const Invocation& call) { return print_options(*arguments, call.own); };
  });
}

}  // namespace troupe
