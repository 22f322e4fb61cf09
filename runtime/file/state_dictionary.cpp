#include "runtime/file/state_dictionary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe {
namespace {

constexpr auto known_keys =
    std::to_array<std::string_view>({"state_dict", "model_state_dict", "model_state", "model",
                                     "module", "net", "network", "weights", "params"});

bool is_known(std::string_view key) {
  return std::ranges::find(known_keys, key) != known_keys.end();
}

bool is_of_optimizer(std::string_view key) {
  return key.starts_with("optim") || key.find("scheduler") != std::string_view::npos;
}

class Search {
 public:
  Search(const std::vector<StateDictionary>& dictionaries, const std::string& origin)
      : dictionaries_(dictionaries),
        origin_(origin),
        only_integers_(std::ranges::all_of(
            dictionaries, [](const StateDictionary& one) { return one.weights == 0; })),
        has_weights_(dictionaries.size()) {
    for (std::size_t i = dictionaries.size(); i-- > 0;)
      has_weights_[i] = holds_weights(i) || !children(i).empty();
  }

  std::size_t run(std::string_view part) const {
    if (!has_weights_.at(0))
      throw Error(ErrorCode::bad_file,
                  fmt::format("reading '{}': it holds no dictionary of tensors", origin_),
                  "save the weights with torch.save(net.state_dict(), 'weights.pt')");
    std::size_t at = place_of(part);
    while (true) {
      std::vector<std::size_t> next = children(at, true);
      if (next.empty() && holds_weights(at)) return at;
      if (next.empty()) next = children(at);
      if (next.size() > 1) refuse(next);
      at = next.front();
    }
  }

 private:
  std::size_t place_of(std::string_view part) const {
    if (part.empty()) return 0;
    std::vector<std::string> paths;
    for (std::size_t i = 0; i < dictionaries_.size(); ++i) {
      if (dictionaries_[i].path == part && has_weights_[i]) return i;
      if (i > 0 && holds_weights(i)) paths.push_back(printable(dictionaries_[i].path));
    }
    throw Error(
        ErrorCode::bad_file,
        fmt::format("reading '{}': it has no weights under the key '{}'{}", origin_,
                    printable(part),
                    paths.empty() ? "" : fmt::format("; it has some under {}", listed(paths))),
        paths.empty() ? fmt::format("leave out '#{}'", printable(part))
                      : "correct the key behind '#', or leave it out");
  }
  bool holds_weights(std::size_t i) const {
    return (only_integers_ ? dictionaries_[i].tensors : dictionaries_[i].weights) > 0;
  }
  /// Those with weights, each once: two keys may hold the same dictionary.
  std::vector<std::size_t> children(std::size_t of, bool known_only = false) const {
    std::vector<std::size_t> found;
    for (const auto& [key, child] : dictionaries_[of].children)
      if (has_weights_[child] && !is_of_optimizer(key) && (!known_only || is_known(key)))
        found.push_back(child);
    std::ranges::sort(found);
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }
  [[noreturn]] void refuse(const std::vector<std::size_t>& equal) const {
    std::vector<std::string> names;
    for (const std::size_t i : equal) names.push_back(printable(dictionaries_[i].path));
    throw Error(ErrorCode::bad_file,
                fmt::format("reading '{}': several of its dictionaries hold weights: {}", origin_,
                            listed(names)),
                fmt::format("choose one by its key, such as '{}#{}'", origin_, names.front()));
  }

  const std::vector<StateDictionary>& dictionaries_;
  const std::string& origin_;
  bool only_integers_;
  std::vector<bool> has_weights_;
};

}  // namespace

std::size_t find_state_dictionary(const std::vector<StateDictionary>& dictionaries,
                                  const std::string& origin, std::string_view part) {
  return Search(dictionaries, origin).run(part);
}

}  // namespace troupe
