#include "apps/options/option_changes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include "apps/options/load_options.h"
#include "apps/options/options_table.h"
#include "ops/models/file_model.h"
#include "runtime/options/tree.h"

namespace troupe {
namespace {

std::optional<Options> options_of(const std::string& text, const Options& now) {
  if (text.empty()) return std::nullopt;
  try {
    return parse_past_options(text, "options of a run", now);
  } catch (const Error&) {
    return std::nullopt;  // of another version, or no options at all
  }
}

bool is_path(std::string_view key) {
  return key == "model.weights" || key == "model.file" || key == "data.path";
}

/// Whether the option has an effect with this model.
bool is_of_model(const OptionField& field, const std::string& model) {
  const auto& [key, values] = field.only_with;
  return key != "model.name" || std::ranges::find(values, model) != values.end();
}

/// A word that a shell takes whole.
std::string assignment(std::string_view key, std::string_view value) {
  const std::string text = fmt::format("{}={}", key, value);
  return text.find_first_of(" []\"") == text.npos ? text : fmt::format("'{}'", text);
}

}  // namespace

std::vector<OptionChange> option_changes(const Options& before, const Options& now,
                                         std::string_view section) {
  Options old_options = before, new_options = now;  // fields are bound to variables
  const OptionFields old_fields = option_fields(old_options), fields = option_fields(new_options);
  std::vector<OptionChange> changes;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string& key = fields[i].path;
    if (is_path(key) || !(section.empty() || key.starts_with(std::string(section) + "."))) continue;
    OptionChange change{key, old_fields[i].write(), fields[i].write()};
    if (change.before != change.now) changes.push_back(std::move(change));
  }
  return changes;
}

OptionChange first_option_difference(std::string_view one, std::string_view other) {
  const auto take_line = [](std::string_view& text) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    return line;
  };
  const auto value_of = [](std::string_view line) {
    const auto colon = line.find(": ");
    return std::string(colon == line.npos ? "nothing" : line.substr(colon + 2));
  };
  std::string section;
  while (!one.empty() || !other.empty()) {
    const std::string_view first = take_line(one), second = take_line(other);
    const std::string_view line = first.empty() ? second : first;
    if (!line.starts_with(' ')) section = line.substr(0, line.find(':'));
    if (first == second) continue;
    const auto begin = line.find_first_not_of(" -");
    const std::string name(line.substr(begin, line.find(':') - begin));
    return {begin == 0 ? name : fmt::format("{}.{}", section, name), value_of(first),
            value_of(second)};
  }
  return {};
}

std::string changes_since(const std::string& before, const Options& now) {
  const auto old_options = options_of(before, now);
  if (!old_options) return {};
  std::vector<std::string> texts;
  for (const OptionChange& change : option_changes(*old_options, now))
    texts.push_back(fmt::format("{} {} → {}", change.key, change.before, change.now));
  return fmt::format("{}", fmt::join(texts, ", "));
}

bool is_of_this_run(const std::filesystem::path& folder, const Options& options) {
  std::ifstream file(folder / "options_restart.yaml", std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  const auto before = options_of(text.str(), options);
  if (!before || before->pipeline.seed != options.pipeline.seed) return false;
  return option_changes(*before, options, "model").empty() &&
         before->dataset.name == options.dataset.name &&
         before->selection.limit == options.selection.limit &&
         dataset_settings(*before) == dataset_settings(options);
}

std::string recorded_option(const std::string& options, std::string_view section,
                            std::string_view key) {
  try {
    const OptionTree document = parse_yaml(options, "options of a run");
    const OptionTree* part = document.find(section);
    const OptionTree* found = part == nullptr ? nullptr : part->find(key);
    return found == nullptr ? "" : found->scalar;
  } catch (const Error&) {
    return {};
  }
}

void check_graph_of_run(const std::string& before, const std::filesystem::path& checkpoint,
                        const Options& now) {
  const std::string here = model_file(now), there = recorded_option(before, "model", "file");
  if (here.empty() || there.empty()) return;
  try {
    FileModel{.file = now.model.chosen().file(),
              .digest = recorded_option(before, "model", "digest")}
        .check_digest();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_options) throw;
    const std::string new_run = fmt::format("start a new run with its weights: -r {}",
                                            assignment("model.weights", checkpoint.string()));
    throw Error(error.code(), error.message(),
                now.model.chosen().file() == there
                    ? fmt::format("give the file that the run began with, or {}", new_run)
                    : fmt::format("resume with the file of that run: -r {}, or {}",
                                  assignment("model.file", there), new_run));
  }
}

Error of_another_model(const Error& error, const std::filesystem::path& path,
                       const std::string& before, const Options& now) {
  if (error.code() != ErrorCode::other_model) return error;
  std::string differ, remedy, message = error.message();
  if (auto old_options = options_of(before, now)) {
    const OptionFields fields = option_fields(*old_options);
    for (const OptionChange& change : option_changes(*old_options, now, "model")) {
      const auto& field = *std::ranges::find(fields, change.key, &OptionField::path);
      if (!is_of_model(field, old_options->model.name)) continue;
      remedy +=
          fmt::format("{}-r {}", remedy.empty() ? "" : " ", assignment(change.key, change.before));
      if (is_of_model(field, now.model.name))
        differ += fmt::format("{} is {} now, was {}: ", change.key, change.now, change.before);
      if (change.key == "model.name") message = "the weights belong to another model";  // no list
    }
  }
  if (const std::string file = recorded_option(before, "model", "file"); !file.empty())
    remedy = now.model.chosen().file() == file ? fmt::format("give the {} of that run", file)
                                               : "-r " + assignment("model.file", file);
  const std::string partly =
      now.weights.empty() ? "" : ", or take what fits with -r model.strict=false";
  return {error.code(), fmt::format("{}: {}{}", path.string(), differ, message),
          (remedy.empty() ? error.remedy() : remedy) + partly};
}

}  // namespace troupe
