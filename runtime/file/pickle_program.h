#pragma once
// The bytes of a pickle: opcodes and their operands.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

/// Reads operands one after another. Every error is an Error (bad_file) with file and offset.
class PickleProgram {
 public:
  static constexpr const char* damaged =
      "the file is damaged or of another kind: download it again";

  /// Both must stay alive.
  PickleProgram(std::string_view bytes, const std::string& origin)
      : bytes_(bytes), origin_(origin) {}

  [[noreturn]] void fail(const std::string& what, const char* remedy = damaged) const;
  std::size_t size() const { return bytes_.size(); }

  std::string_view take(std::uint64_t size);
  /// Bytes that follow after their number, which has `size` bytes.
  std::string_view take_counted(std::size_t size) { return take(take_number(size)); }
  /// Without its end.
  std::string_view take_line();

  /// Little-endian, of up to eight bytes.
  std::uint64_t take_number(std::size_t size);
  std::int64_t take_signed(std::uint64_t size);
  double take_real();  ///< big-endian

  std::int64_t take_decimal() { return decimal(take_line()); }
  /// The number in a line.
  std::int64_t decimal(std::string_view line) const;
  double take_decimal_real();  ///< a line

 private:
  std::string_view bytes_;
  const std::string& origin_;
  std::size_t at_ = 0;
};

}  // namespace troupe
