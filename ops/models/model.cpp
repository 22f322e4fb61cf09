#include "ops/models/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ops/models/models.h"
#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe {
namespace {

struct Entry {
  std::string_view name;
  Model (*make)(const ModelOptions&);
};
constexpr std::array entries = {Entry{"wide_resnet", models::wide_resnet},
                                Entry{"mnist_cnn", models::mnist_cnn}, Entry{"mlp", models::mlp}};

Error unknown(const std::string& name) {
  std::vector<std::string_view> names;
  names.reserve(std::size(entries));
  for (const Entry& entry : entries) names.push_back(entry.name);
  return Error(ErrorCode::bad_options, fmt::format("model.name is '{}'", name),
               did_you_mean(name, names, "the models are wide_resnet, mnist_cnn and mlp"));
}

void check(std::string_view what, std::int64_t value) {
  if (value > 0) return;
  throw Error(ErrorCode::bad_options, fmt::format("{} is {}", what, value),
              "give a positive number");
}

}  // namespace

Model make_model(const ModelOptions& options) {
  const auto entry = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry& e) { return e.name == options.name; });
  if (entry == entries.end()) throw unknown(options.name);
  check("model.in_channels", options.in_channels);
  check("the samples' height", options.height);
  check("the samples' width", options.width);
  check("model.classes", options.classes);
  for (const std::int64_t width : options.widths) check("a number in model.widths", width);
  if (options.dropout < 0.0 || options.dropout >= 1.0)
    throw Error(ErrorCode::bad_options, fmt::format("model.dropout is {}", options.dropout),
                "give a probability in [0, 1)");
  Model model = entry->make(options);
  model.name = options.name;
  model.sample_shape = Shape{options.in_channels, options.height, options.width};
  model.classes = options.classes;
  return model;
}

}  // namespace troupe
