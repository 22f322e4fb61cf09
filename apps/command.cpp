#include "apps/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "apps/verbs.h"
#include "runtime/error.h"
#include "runtime/print.h"
#include "runtime/text.h"

namespace troupe {
namespace {

std::vector<std::string> names_of_verbs(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

std::string nearest_of(std::string_view word, const std::vector<std::string>& names) {
  // A beginning means the whole, however much is missing.
  for (const auto& name : names)
    if (word.size() > 3 && name.starts_with(word)) return name;
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  return nearest(word.substr(0, 64), candidates);
}

/// What the parser did not understand, told with the nearest verb or flag.
Error usage_error(const CLI::App& app, const CLI::ParseError& error, std::string_view first_word) {
  const auto verbs = names_of_verbs(app);
  const bool has_verb = !app.get_subcommands().empty();
  if (!has_verb && !first_word.starts_with('-'))
    return {ErrorCode::usage, fmt::format("there is no verb {}", first_word),
            fmt::format("did you mean troupe {}? The verbs are {}", nearest_of(first_word, verbs),
                        listed(verbs, verbs.size()))};
  const CLI::App& used = has_verb ? *app.get_subcommands().front() : app;
  const std::string name = has_verb ? "troupe " + used.get_name() : "troupe";
  for (const auto& word : app.remaining(true)) {
    if (word.size() < 2 || word[0] != '-') continue;
    std::vector<std::string> flags;
    for (const CLI::Option* option : used.get_options())
      for (const auto& flag : option->get_lnames()) flags.push_back("--" + flag);
    return {ErrorCode::usage, fmt::format("{} has no option {}", name, word),
            fmt::format("did you mean {}? {} --help lists all", nearest_of(word, flags), name)};
  }
  return {ErrorCode::usage, fmt::format("{}: {}", name, error.what()), name + " --help"};
}

/// As it would be typed into a shell.
std::string command_line(int argc, char** argv) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+.,:/@%";
  std::string line;
  for (int i = 0; i < argc; ++i) {
    std::string word = argv[i];
    if (word.empty() || word.find_first_not_of(plain) != std::string::npos) {
      for (std::size_t at = 0; (at = word.find('\'', at)) != std::string::npos; at += 4)
        word.replace(at, 1, "'\\''");
      word = fmt::format("'{}'", word);
    }
    line += (i == 0 ? "" : " ") + word;
  }
  return line;
}

bool output_is_lost() { return std::fflush(stdout) != 0 || std::ferror(stdout) != 0; }

Error lost_output() {
  return {ErrorCode::io, "standard output could not be written", "check where it leads"};
}

}  // namespace

int run_command(int argc, char** argv) {
  keep_standard_streams();
  CLI::App app("Train neural networks as a troupe of actors", "troupe");
  app.set_version_flag("--version", "troupe " TROUPE_VERSION);
  app.get_formatter()->column_width(26);
  app.get_formatter()->label("SUBCOMMAND", "VERB");
  app.get_formatter()->label("OPTIONS", "--OPTION ...");
  app.get_formatter()->label("TEXT", "VALUE");
  app.get_formatter()->label("REQUIRED", "(required)");
  app.require_subcommand(1);
  ChosenVerb chosen;
  add_train_verb(app, chosen);
  add_plan_verb(app, chosen);
  add_eval_verb(app, chosen);
  add_export_verb(app, chosen);
  add_inspect_verb(app, chosen);
  add_launch_verb(app, chosen);
  add_jobscript_verb(app, chosen);
  add_doctor_verb(app, chosen);
  add_options_verb(app, chosen);
  app.footer(
      "troupe VERB --help tells more.\n"
      "recipes/demo.yaml is an options file to begin with.");
  if (argc <= 1) {  // asks for nothing in particular: nothing is wrong
    print_out("{}", app.help());
    return output_is_lost() ? tell(lost_output(), app.get_name()) : exit_done;
  }
  try {
    app.parse(argc, argv);
    const int code = chosen(command_line(argc, argv));
    // A listing that could not be written is no success; training goes on without its picture.
    if (code == exit_done && output_is_lost() && !app.got_subcommand("train"))
      return tell(lost_output(), app.get_name());
    return code;
  } catch (const CLI::Success& done) {
    const int code = app.exit(done);
    return output_is_lost() ? tell(lost_output(), app.get_name()) : code;
  } catch (const CLI::ParseError& error) {
    return tell(usage_error(app, error, argv[1]), app.get_name());
  } catch (const Error& error) {
    return tell(error, app.get_name());
  } catch (const std::exception& error) {
    // A listing longer than the stream's buffer meets it on the way.
    if (output_is_lost()) return tell(lost_output(), app.get_name());
    return tell(
        Error(ErrorCode::internal, error.what(), "report this with the command and options"),
        app.get_name());
  }
}

}  // namespace troupe
