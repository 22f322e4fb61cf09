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

/// The environment variables of a process, as a value: tests pass their own.
class Environment {
 public:
  using Variables = std::map<std::string, std::string, std::less<>>;
  /// Facts about a process beside its variables.
  struct Process {
    pid_t pid = 0;              ///< 0 if unknown
    bool has_terminal = false;  ///< a terminal controls it, as in an interactive shell
  };

  /// The variables and facts of the calling process.
  static Environment of_process();

  Environment(std::initializer_list<std::pair<const std::string, std::string>> variables)
      : variables_(variables) {}
  Environment(std::initializer_list<std::pair<const std::string, std::string>> variables,
              Process process)
      : variables_(variables), process_(process) {}

  void set(std::string name, std::string value) {
    variables_.insert_or_assign(std::move(name), std::move(value));
  }

  /// The value of a variable; empty if it is unset or has no text, which launchers treat alike.
  std::optional<std::string> get(std::string_view name) const;
  bool has(std::string_view name) const { return get(name).has_value(); }

  /// A whole number from `least` to `most`. Throws Error (usage) with variable, value and remedy
  /// for anything else, also for a number with a sign, blanks or a fraction.
  std::optional<int> number(std::string_view name, int least = 0, int most = 1 << 24) const;

  const Variables& variables() const { return variables_; }  ///< empty ones as well
  const Process& process() const { return process_; }

 private:
  Variables variables_;
  Process process_;
};

}  // namespace troupe
