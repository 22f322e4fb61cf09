#include "apps/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "apps/error_wording.h"
#include "apps/memory_shortage.h"
#include "apps/options/options_table.h"
#include "apps/verbs.h"
#include "apps/version.h"
#include "runtime/error.h"
#include "runtime/file/file.h"
#include "runtime/print.h"
#include "runtime/shell_text.h"
#include "runtime/text.h"

namespace troupe {
namespace {

std::vector<std::string> names_of_verbs(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

/// "did you mean …? " where something near enough is there.
std::string guess(std::string_view word, const std::vector<std::string>& names,
                  std::string_view before) {
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const std::string near = meant(word, candidates);
  return near.empty() ? "" : fmt::format("did you mean {}{}? ", before, near);
}

bool takes_overrides(const CLI::App& verb) {
  return verb.get_option_no_throw("--override") != nullptr;
}

/// Whether the verb has the flags that a hint names.
bool has_flags_of(const CLI::App& used, std::string_view hint) {
  return std::ranges::none_of(std::array{"--restart", "-o"}, [&](const char* flag) {
    return hint.find(fmt::format("{} ", flag)) != hint.npos &&
           used.get_option_no_throw(flag) == nullptr;
  });
}

/// "did you mean -r train.lr=VALUE? " for --lr, if an options file has a key of this name.
std::string as_override(const CLI::App& used, std::string_view flag, const Definitions& own) {
  Options options(own);
  std::string name(flag.substr(0, flag.find('=')));
  std::ranges::replace(name, '-', '_');
  if (name == "data") name = "data_path";  // as most scripts call it
  for (const OptionField& field : option_fields(options)) {
    const std::string_view own = std::string_view(field.path).substr(field.path.rfind('.') + 1);
    if (name == own || name == field.path || std::ranges::count(field.synonyms, name) > 0)
      return fmt::format("did you mean -r {}=VALUE? ", field.path);
    for (const auto& [foreign, remedy] : field.hints)
      if (name == foreign && has_flags_of(used, remedy)) return fmt::format("{}; ", remedy);
  }
  return {};
}

/// "PROGRAM launch --nproc-per-node … starts several processes; " for a flag of that verb.
std::string of_the_launcher(const CLI::App& used, std::string_view flag) {
  const CLI::App* app = used.get_parent();
  if (used.get_name() != "train" || app == nullptr) return {};
  const auto name = "--" + std::string(flag.substr(0, flag.find('=')));
  if (app->get_subcommand("launch")->get_option_no_throw(name) == nullptr) return {};
  return fmt::format("{} launch {} ... -- train FILE starts several processes; ", program_name(),
                     name);
}

bool has_open_bracket(const std::string& text) {
  return std::ranges::count(text, '[') > std::ranges::count(text, ']') ||
         std::ranges::count(text, '{') > std::ranges::count(text, '}');
}

bool is_file_name(const std::string& word) {
  std::error_code ignored;  // such as for a word that is too long for a name
  return word.ends_with(".yaml") || word.ends_with(".yml") ||
         std::filesystem::exists(word, ignored);
}

bool is_assignment(const std::string& word) {
  const auto equals = word.find('=');
  return equals != word.npos && equals > 0 && word[0] != '-' &&
         std::all_of(
             word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals),
             [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.' || c == '-'; });
}

/// Whether the flag takes the next word as its value.
bool takes_next_word(const CLI::App& used, const std::string& flag) {
  const CLI::Option* option = flag.starts_with('-') ? used.get_option_no_throw(flag) : nullptr;
  return option != nullptr && option->get_items_expected_max() > 0;
}

/// Assignments such as train.lr=0.1 that were given without -r, in their order, each behind its
/// own. The parser may have taken one of them for the file.
std::string bare_assignments(const CLI::App& used, const std::vector<std::string>& words) {
  std::vector<std::string> found;
  for (std::size_t i = 1; i < words.size() && words[i] != "--"; ++i) {
    if (!is_assignment(words[i]) || is_file_name(words[i])) continue;
    if (takes_next_word(used, words[i - 1])) continue;
    std::string text = words[i];
    while (has_open_bracket(text) && i + 1 < words.size() && !words[i + 1].starts_with('-'))
      text += " " + words[++i];
    found.push_back("-r " + shell_word(text));
  }
  return fmt::format("{}", fmt::join(found, " "));
}

/// The assignment that was meant where it was given as several words: "train.lr=0.1" of
/// -r train.lr 0.1, 'model.widths=[8, 4]' of -r model.widths=[8, 4]. A word with a "=" is an
/// assignment, so it is joined with `unknown` words only, unless a bracket is open. Empty if all
/// are whole.
std::string split_assignment(const std::vector<std::string>& words,
                             const std::vector<std::string>& unknown) {
  for (std::size_t i = 1; i < words.size() && words[i - 1] != "--"; ++i) {
    if (words[i - 1] != "-r" && words[i - 1] != "--override") continue;
    std::string text = words[i];
    if (std::ranges::none_of(text, [](unsigned char c) { return std::isalnum(c) != 0; }))
      return "KEY=VALUE";
    const bool has_value = text.find('=') != std::string::npos;
    std::size_t next = i + 1;
    const auto can_join = [&] {
      return next < words.size() && !words[next].starts_with('-') &&
             (!has_value || has_open_bracket(text) ||
              std::ranges::find(unknown, words[next]) != unknown.end());
    };
    if (!can_join()) continue;
    if (!has_value) {
      if (text.size() > 1 && text.back() == ':') text.pop_back();
      if (is_file_name(words[next])) return shell_word(text + "=VALUE");
      if (!words[next].starts_with('=')) text += '=';
    }
    const auto is_open = [&] {
      return text.back() == '=' || has_open_bracket(text) || text.find('=') == std::string::npos;
    };
    for (; is_open() && can_join(); ++next)
      text += (text.back() == '=' || words[next].starts_with('=') ? "" : " ") + words[next];
    if (next > i + 1 && !is_open()) return shell_word(text);
  }
  return {};
}

Error needs_own_flags(const std::string& name, const std::string& assignments) {
  return {
      ErrorCode::usage,
      fmt::format("{}: each KEY=VALUE needs its own -r, and there is no file of such a name", name),
      assignments};
}

Error needs_one_word(const std::string& name, const std::string& assignment) {
  return {ErrorCode::usage, fmt::format("{}: -r needs KEY=VALUE in one word", name),
          "write -r " + assignment};
}

/// Throws for words that parse but are no assignment, such as -r train.lr 0.1 in place of a file.
void check_assignments(const CLI::App& app, const std::vector<std::string>& words) {
  const auto used = app.get_subcommands();
  if (used.empty() || !takes_overrides(*used.front())) return;
  const std::string name = fmt::format("{} {}", program_name(), used.front()->get_name());
  if (const std::string assignment = split_assignment(words, {}); !assignment.empty())
    throw needs_one_word(name, assignment);
  if (const std::string assignments = bare_assignments(*used.front(), words); !assignments.empty())
    throw needs_own_flags(name, assignments);
}

/// Throws for a flag with an empty value, such as that of a variable which is not set.
void check_values(const CLI::App& app) {
  for (const CLI::App* verb : app.get_subcommands())
    for (const CLI::Option* option : verb->get_options())
      if (!option->get_positional() && std::ranges::count(option->results(), "") > 0)
        throw Error(ErrorCode::usage, fmt::format("{} has an empty value", option->get_name()),
                    fmt::format("give it a value, or leave out {}", option->get_name()));
}

/// A flag that the verb does not have.
Error unknown_flag(const CLI::App& used, const std::string& name, const std::string& word,
                   const Definitions& own) {
  if (used.get_option_no_throw(word) != nullptr)
    return {ErrorCode::usage, fmt::format("{} stands before its verb", word),
            fmt::format("write {} {} ...", name, word)};
  const std::string_view bare = std::string_view(word).substr(word.find_first_not_of('-'));
  std::vector<std::string> flags;
  for (const CLI::Option* option : used.get_options())
    for (const auto& flag : option->get_lnames()) flags.push_back(flag);
  std::string idea = bare.size() > 1 ? guess(bare, flags, "--") : "";
  if (takes_overrides(used))
    if (const std::string key = as_override(used, bare, own); !key.empty()) idea = key;
  if (takes_overrides(used) && bare == "config") idea = name + " FILE; ";
  if (const std::string launch = of_the_launcher(used, bare); !launch.empty()) idea = launch;
  return {ErrorCode::usage, fmt::format("{} has no option {}", name, word),
          fmt::format("{}{} --help lists all", idea, name)};
}

/// What the parser did not understand, with the nearest verb or flag.
Error usage_error(const CLI::App& app, const CLI::ParseError& error,
                  const std::vector<std::string>& words, const Definitions& own) {
  const auto verbs = names_of_verbs(app);
  const bool asks_help = words.front() == "help" && words.size() > 1;
  const std::string& first_word = words[asks_help ? 1 : 0];
  const bool has_verb = !app.get_subcommands().empty();
  if (!has_verb && !first_word.starts_with('-'))
    return {ErrorCode::usage, fmt::format("unknown verb: {}", first_word),
            fmt::format("{}The verbs are {}",
                        guess(first_word, verbs, fmt::format("{} ", program_name())),
                        listed(verbs, verbs.size()))};
  const CLI::App& used = has_verb ? *app.get_subcommands().front() : app;
  const std::string name = has_verb ? fmt::format("{} {}", program_name(), used.get_name())
                                    : std::string(program_name());
  const std::vector<std::string> unknown = app.remaining(true);
  for (const auto& word : unknown)
    if (word.find_first_not_of('-') != std::string::npos && word[0] == '-')
      return unknown_flag(used, name, word, own);
  if (takes_overrides(used) && !unknown.empty())
    if (const std::string assignments = bare_assignments(used, words); !assignments.empty())
      return needs_own_flags(name, assignments);
  if (const std::string assignment = split_assignment(words, unknown);
      takes_overrides(used) && !assignment.empty())
    return needs_one_word(name, assignment);
  if (takes_overrides(used) && !words.empty() &&
      (words.back() == "-r" || words.back() == "--override"))
    return {ErrorCode::usage, fmt::format("{}: {} needs KEY=VALUE", name, words.back()),
            "write an assignment such as -r train.lr=0.05"};
  return {ErrorCode::usage, fmt::format("{}: {}", name, error.what()), name + " --help"};
}

/// Shows "..." only for options that take several values at a time. The usage line, not the list,
/// says which arguments are required.
class HelpFormatter final : public CLI::Formatter {
 public:
  /// Without the empty lines that CLI11 writes for groups of hidden options.
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
    text.erase(text.find_last_not_of('\n') + 1);
    for (std::size_t at = 0; (at = text.find("\n\n\n", at)) != std::string::npos;)
      text.erase(at, 1);
    return text + '\n';
  }
  /// Verbs with required options, which CLI11's usage line lacks, or arguments in another order.
  std::string make_usage(const CLI::App* app, std::string name) const override {
    if (app->get_name() == "export")
      return fmt::format("Usage: {} [OPTIONS] -o FILE CHECKPOINT\n", name);
    if (app->get_name() == "launch")
      return fmt::format("Usage: {} [OPTIONS] -- COMMAND ...\n", name);
    if (app->get_name() == "jobscript")
      return fmt::format("Usage: {} [OPTIONS] --cluster NAME --time TIME FILE\n", name);
    return CLI::Formatter::make_usage(app, std::move(name));
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_positional())
      return option->get_expected_max() == CLI::detail::expected_max_vector_size ? " ..." : "";
    std::string text = CLI::Formatter::make_option_opts(option);
    constexpr std::string_view several = " ...", excludes = " Excludes:";
    if (!option->get_allow_extra_args())
      if (const auto at = text.find(several); at != std::string::npos)
        text.erase(at, several.size());
    return text.substr(0, text.find(excludes));  // the help of the other option says "instead"
  }
};

/// As it would be typed into a shell.
std::string command_line(int argc, char** argv) {
  std::string line;
  for (int i = 0; i < argc; ++i) line += (i == 0 ? "" : " ") + shell_word(argv[i]);
  return line;
}

bool output_is_lost() { return std::fflush(stdout) != 0 || std::ferror(stdout) != 0; }

Error lost_output() {
  return {ErrorCode::io, "standard output could not be written",
          "check the file or pipe that it is redirected to"};
}

void describe(CLI::App& app, ChosenVerb& chosen) {
  app.set_version_flag("--version", [] {
    return fmt::format("troupe " TROUPE_VERSION "\n{}\n{}", components_text(), gpus_text());
  });
  app.formatter(std::make_shared<HelpFormatter>());
  app.get_formatter()->column_width(26);
  app.get_formatter()->label("SUBCOMMAND", "VERB");
  app.get_formatter()->label("OPTIONS", "OPTIONS");
  app.get_formatter()->label("Positionals", "Arguments");
  app.get_formatter()->label("TEXT", "VALUE");
  app.require_subcommand(1);
  add_train_verb(app, chosen);
  add_fetch_verb(app, chosen);
  add_plan_verb(app, chosen);
  add_eval_verb(app, chosen);
  add_export_verb(app, chosen);
  add_inspect_verb(app, chosen);
  add_launch_verb(app, chosen);
  add_jobscript_verb(app, chosen);
  add_doctor_verb(app, chosen);
  add_options_verb(app, chosen);
  for (CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    verb->group("Verbs");
  app.footer(fmt::format(
      "{0} VERB --help shows the arguments of a verb; parentheses contain the default.\n"
      "{0} options lists the keys of an options file.\n"
      "Exit codes: 0 success, 1 failure, 2 wrong usage or options, 75 stopped on request.",
      program_name()));
}

}  // namespace

void check_words(const std::vector<std::string>& words) {
  CLI::App app("", std::string(program_name()));
  ChosenVerb chosen;
  describe(app, chosen);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // as CLI11 wants them
    check_assignments(app, words);
    check_values(app);
  } catch (const CLI::Success&) {  // --help: the processes show it
  } catch (const CLI::ParseError& error) {
    throw usage_error(app, error, words, {});
  }
}

namespace {

int parse_and_run(CLI::App& app, const ChosenVerb& chosen, int argc, char** argv,
                  const Definitions& own) {
  std::vector<char*> words(argv, argv + argc);
  std::string help = "--help";
  if (std::string_view(words[1]) == "help") {  // "help VERB" is "VERB --help"
    words.erase(words.begin() + 1);
    const auto verbs = names_of_verbs(app);
    const bool known = words.size() == 1 || std::ranges::count(verbs, words[1]) > 0;
    if (known)
      words.insert(words.begin() + std::min<std::ptrdiff_t>(std::ssize(words), 2), help.data());
  }
  app.parse(static_cast<int>(words.size()), words.data());
  check_assignments(app, {argv + 1, argv + argc});
  check_values(app);
  const int code =
      chosen({.program = argv[0], .command_line = command_line(argc, argv), .own = own});
  // A listing that could not be written is a failure; training needs no terminal.
  if (code == exit_done && output_is_lost()) {
    if (!app.got_subcommand("train")) throw lost_output();
    print_warning("standard output could not be written");
  }
  return code;
}

/// A run needs a few open files for each of its other processes. The usual soft limit of 1,024
/// exists for select(2), which the command does not use.
void allow_more_open_files() {
  constexpr rlim_t enough = 65536;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= enough) return;
  limit.rlim_cur = std::min(limit.rlim_max, enough);
  ::setrlimit(RLIMIT_NOFILE, &limit);  // on failure the limit stays, and doctor names it
}

/// The error for an exception that is not the library's.
Error error_of(const std::exception& exception) {
  // A listing that is longer than the stream's buffer throws before its end.
  if (output_is_lost()) return lost_output();
  if (const auto* about = dynamic_cast<const std::filesystem::filesystem_error*>(&exception))
    return system_error("looking at", about->path1(), about->code().value());
  if (dynamic_cast<const std::system_error*>(&exception) != nullptr)
    return {ErrorCode::io, fmt::format("a system call failed: {}", exception.what()),
            "check the limits of memory and processes (ulimit -a)"};
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr)
    return {ErrorCode::out_of_memory, "out of memory",
            "free memory, raise the limit (ulimit -v), or lower train.batch_size"};
  return {ErrorCode::internal, exception.what(), "report this with the command and options"};
}

}  // namespace

int run_command(int argc, char** argv, const Definitions& own) {
  // Line by line into files and pipes as well, so that a run can be followed.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  allow_more_open_files();
  keep_standard_streams();
  prepare_for_memory_shortage();
  std::signal(SIGXFSZ, SIG_IGN);  // the write that exceeds a file size limit reports it
  CLI::App app("Train neural networks as a graph of actors", std::string(program_name()));
  ChosenVerb chosen;
  describe(app, chosen);
  if (argc <= 1) {
    print_out("{}", app.help());
    return output_is_lost() ? print_error(lost_output()) : exit_done;
  }
  try {
    (void)Options(own);  // of two definitions with one name, no error below could be worded
  } catch (const Error& error) {
    return print_error(in_words_of_the_command(error));
  }
  try {
    return parse_and_run(app, chosen, argc, argv, own);
  } catch (const CLI::Success& done) {
    const int code = app.exit(done);
    return output_is_lost() ? print_error(lost_output()) : code;
  } catch (const CLI::ParseError& error) {
    return print_error(usage_error(app, error, {argv + 1, argv + argc}, own));
  } catch (const Error& error) {
    return print_error(in_words_of_the_command(error, own));
  } catch (const std::exception& error) {
    return print_error(error_of(error));
  }
}

}  // namespace troupe
