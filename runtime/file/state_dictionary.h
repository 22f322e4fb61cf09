#pragma once
// Which dictionary of a file holds a model's weights. Training scripts save them beside other
// things: {"epoch": 3, "model_state_dict": {…}, "optimizer_state_dict": {…}}.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe {

/// A dictionary of a file, without what it holds.
struct StateDictionary {
  /// Keys joined by '.', by which it is listed: "checkpoint.model"; empty for the whole.
  std::string path = {};
  std::size_t tensors = 0;  ///< that it holds itself
  std::size_t weights = 0;  ///< those of them that are not integers or truth values
  /// Keys of dictionaries that it holds, owned by the caller, and where they are in the list. Many
  /// keys may lead to one dictionary: {"last": state, "best": state}.
  std::vector<std::pair<std::string_view, std::size_t>> children = {};
};

/// A dictionary in the list, and the keys that lead to it.
struct StateDictionaryChoice {
  std::size_t place = 0;
  std::string path = {};
};

/// The weights among dictionaries, of which the first is the whole and each other one
/// follows its parent. A child under a known key (state_dict, model_state_dict, model, module, …)
/// is preferred to the tensors beside it, these to other children; the state of optimizers does not
/// count, nor do integers where there are other tensors. With a `part`, the search is within the
/// dictionary of this path. Throws Error{bad_file} if there are no weights, or if several
/// dictionaries fit equally: it lists them.
StateDictionaryChoice find_state_dictionary(const std::vector<StateDictionary>& dictionaries,
                                            const std::string& origin, std::string_view part = {});

}  // namespace troupe
