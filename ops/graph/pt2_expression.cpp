#include "ops/graph/pt2_expression.h"

#include <fmt/format.h>

#include <charconv>

#include "ops/graph/size_arithmetic.h"
#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe::graph {
namespace {

constexpr int deepest = 16;

/// Reads sympy's notation: Symbol('s0', …), Integer(3), Mul(a, b), Add(a, b), or a plain number.
class Expression {
 public:
  Expression(std::string_view text, std::string_view batch, const std::string& where)
      : all_(text), left_(text), batch_(batch), where_(where) {}

  Size whole() {
    const Size size = term(0);
    if (!left_.empty()) fail();
    return size;
  }

 private:
  Size term(int depth) {
    if (depth > deepest) fail();
    skip_spaces();
    if (take("Symbol(")) return symbol();
    if (take("Integer(")) {
      const Size size = fixed(number());
      expect(")");
      return size;
    }
    if (take("Mul(")) return combined(depth, true);
    if (take("Add(")) return combined(depth, false);
    return fixed(number());
  }

  Size combined(int depth, bool product_of_all) {
    Size result = product_of_all ? fixed(1) : fixed(0);
    do {
      const Size next = term(depth + 1);
      const auto both = product_of_all ? multiply(result, next) : add(result, next);
      if (!both) fail();
      result = *both;
      skip_spaces();
    } while (take(","));
    expect(")");
    return result;
  }

  Size symbol() {
    expect("'");
    const auto end = left_.find('\'');
    if (end == left_.npos || left_.substr(0, end) != batch_) fail();
    const auto close = left_.find(')');
    if (close == left_.npos) fail();
    left_.remove_prefix(close + 1);
    return {.fixed = 0, .per_sample = 1};
  }

  std::int64_t number() {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), value);
    if (error != std::errc{}) fail();
    left_.remove_prefix(static_cast<std::size_t>(end - left_.data()));
    return value;
  }
  void skip_spaces() {
    while (left_.starts_with(' ')) left_.remove_prefix(1);
  }
  bool take(std::string_view word) {
    if (!left_.starts_with(word)) return false;
    left_.remove_prefix(word.size());
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) fail();
  }
  [[noreturn]] void fail() const {
    throw Error(ErrorCode::bad_file,
                fmt::format("{}: the size '{}' is not linear in the batch size, or too large",
                            where_, printable(std::string(all_.substr(0, 200)))),
                "give the model one dynamic size, that of the batch");
  }

  std::string_view all_, left_, batch_;
  const std::string& where_;
};

}  // namespace

Size size_of_expression(std::string_view text, std::string_view batch, const std::string& where) {
  return Expression(text, batch, where).whole();
}

std::string symbol_of(std::string_view text) {
  constexpr std::string_view begin = "Symbol('";
  if (!text.starts_with(begin)) return {};
  text.remove_prefix(begin.size());
  return std::string(text.substr(0, text.find('\'')));
}

}  // namespace troupe::graph
