#pragma once
#include <sys/types.h>

#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace troupe {

/// The variables a process was started with, as a value: what reads them can be tested without
/// changing the test's own.
class Environment {
 public:
  using Variables = std::map<std::string, std::string, std::less<>>;
  /// What is known of a process beside its variables.
  struct Process {
    pid_t pid = 0;              ///< 0 if it is not known
    bool has_terminal = false;  ///< whether a terminal controls it: somebody's shell started it
  };

  /// A copy of the calling process's variables, and who it is.
  static Environment of_process();

  Environment(std::initializer_list<std::pair<const std::string, std::string>> variables)
      : variables_(variables) {}
  Environment(std::initializer_list<std::pair<const std::string, std::string>> variables,
              Process process)
      : variables_(variables), process_(process) {}

  void set(std::string name, std::string value) {
    variables_.insert_or_assign(std::move(name), std::move(value));
  }

  /// The value of a variable; nothing if it is not set or empty, which launchers mean alike.
  std::optional<std::string> get(std::string_view name) const;
  bool has(std::string_view name) const { return get(name).has_value(); }

  /// A whole number from `least` to `most`. Throws Error (usage) naming the variable, its value and
  /// the remedy for anything else, a number with a sign, blanks or a fraction included.
  std::optional<int> number(std::string_view name, int least = 0, int most = 1 << 24) const;

  const Variables& variables() const { return variables_; }  ///< empty ones as well
  const Process& process() const { return process_; }

 private:
  Variables variables_;
  Process process_;
};

}  // namespace troupe
