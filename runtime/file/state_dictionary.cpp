#include "runtime/file/state_dictionary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
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

std::string below(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
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

  StateDictionaryChoice run(std::string_view part) const {
    if (!has_weights_.at(0))
      throw Error(ErrorCode::bad_file,
                  fmt::format("reading '{}': it holds no dictionary of tensors", origin_),
                  "save the weights with torch.save(net.state_dict(), 'weights.pt')");
    std::size_t at = place_of(part);
    std::string path(part);
    while (true) {
      Children next = children(at, true);
      if (next.empty() && holds_weights(at)) return {at, std::move(path)};
      if (next.empty()) next = children(at);
      if (next.size() > 1) refuse(path, next);
      path = below(path, next.front().first);
      at = next.front().second;
    }
  }

 private:
  using Children = std::vector<std::pair<std::string_view, std::size_t>>;

  /// Where keys joined by '.' lead from the whole, if there are weights. A key may contain a '.'.
  std::optional<std::size_t> follow(std::string_view part) const {
    std::set<std::pair<std::size_t, std::size_t>> open{{0, 0}};  // characters read, dictionary
    while (!open.empty()) {
      const auto [read, at] = open.extract(open.begin()).value();
      const std::string_view rest = part.substr(read);
      for (const auto& [key, child] : dictionaries_[at].children)
        if (rest == key && has_weights_[child])
          return child;
        else if (rest.size() > key.size() && rest.starts_with(key) && rest[key.size()] == '.')
          open.emplace(read + key.size() + 1, child);
    }
    return std::nullopt;
  }
  std::size_t place_of(std::string_view part) const {
    if (part.empty()) return 0;
    if (const auto place = follow(part)) return *place;
    std::vector<std::string> paths;
    for (const StateDictionary& parent : dictionaries_)
      for (const auto& [key, child] : parent.children)
        if (holds_weights(child)) paths.push_back(printable(below(parent.path, key)));
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
  /// Those with weights, each once with its first key: two keys may hold the same dictionary.
  Children children(std::size_t of, bool known_only = false) const {
    Children found;
    for (const auto& child : dictionaries_[of].children)
      if (has_weights_[child.second] && !is_of_optimizer(child.first) &&
          (!known_only || is_known(child.first)))
        found.push_back(child);
    std::ranges::stable_sort(found, {}, &Children::value_type::second);
    const auto same = [](const auto& a, const auto& b) { return a.second == b.second; };
    found.erase(std::unique(found.begin(), found.end(), same), found.end());
    return found;
  }
  [[noreturn]] void refuse(const std::string& path, const Children& equal) const {
    std::vector<std::string> names;
    for (const auto& [key, child] : equal) names.push_back(printable(below(path, key)));
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

StateDictionaryChoice find_state_dictionary(const std::vector<StateDictionary>& dictionaries,
                                            const std::string& origin, std::string_view part) {
  return Search(dictionaries, origin).run(part);
}

}  // namespace troupe
