#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/file/pickle.h"
#include "runtime/file/pickle_program.h"

namespace troupe {

/// The stack machine that a pickle is a program of. Each group of opcodes is one function, which
/// returns false for an opcode of another group. Functions and objects are those of a derived
/// class. Every error is an Error (bad_file) with file and offset.
class PickleMachine {
 public:
  PickleMachine(std::span<const std::byte> bytes, const std::string& origin, Pickle& pickle)
      : program_({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, origin),
        pickle_(pickle) {}
  PickleMachine(const PickleMachine&) = delete;
  PickleMachine& operator=(const PickleMachine&) = delete;

  void run();

 protected:
  ~PickleMachine() = default;

  virtual bool object(char opcode) = 0;
  /// Adds to the value on top of the stack.
  virtual void append(const std::vector<PickleValue>& values);
  virtual void set_items(const std::vector<PickleValue>& keys_and_values);
  /// An integer of more than 64 bits, whose bytes follow.
  virtual PickleValue long_integer(std::uint64_t bytes);
  /// The remedy for programs that use others: what is read.
  virtual const char* what_is_read() const = 0;

  void push(PickleValue value) { stack_.push_back(value); }
  PickleValue pop();
  template <class T>
  T pop_as(const char* what) {
    return as<T>(pop(), what);
  }
  PickleValue top();
  /// The values above the last mark, which is removed.
  std::vector<PickleValue> pop_mark();
  template <class T>
  T as(const PickleValue& value, const char* what) const {
    if (const T* held = std::get_if<T>(&value)) return *held;
    fail_to_find(what);
  }
  const PickleValue& item(const PickleList* list, std::size_t index, const char* what) const;

  PickleList* new_list(std::vector<PickleValue> items);
  PickleDict* new_dict() { return &pickle_.dicts_.emplace_back(); }
  PickleType* new_type(const PickleType& type) { return &pickle_.types_.emplace_back(type); }
  PickleArray* new_array() { return &pickle_.arrays_.emplace_back(); }
  PickleName* new_name(const PickleName& name) { return &pickle_.names_.emplace_back(name); }
  PickleObject* new_object(const PickleValue& callee, const PickleValue& arguments);
  PickleReference* new_reference(const PickleValue& id);
  /// A text of its own.
  std::string_view kept(std::optional<std::string> decoded);
  static void add_items(PickleDict& to, const std::vector<PickleValue>& keys_and_values);

  const PickleProgram& program() const { return program_; }
  PickleProgram& program() { return program_; }

 private:
  [[noreturn]] void fail_to_find(const char* what) const;
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  bool number(char opcode);
  PickleValue whole_number_or_bool();
  PickleValue counted_integer(std::size_t size);
  bool text(char opcode);
  bool container(char opcode);
  void drop();
  void push_list(std::vector<PickleValue> items) { push(new_list(std::move(items))); }
  void tuple_of(std::size_t size);
  void push_dict(const std::vector<PickleValue>& items);
  void set_item();
  bool memo(char opcode);
  void check_protocol();
  void memoize();
  void recall(std::uint64_t number);
  std::uint64_t line_number() { return static_cast<std::uint64_t>(program_.take_decimal()); }

  PickleProgram program_;
  Pickle& pickle_;
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;  ///< sizes of the stack; a mark hides the values below it
  std::map<std::uint64_t, PickleValue> memo_;
};

namespace pickle_objects {

/// Reads a pickle, one function for each PickleObjects.
void read_numpy(std::span<const std::byte> bytes, const std::string& origin, Pickle& pickle);
void read_named(std::span<const std::byte> bytes, const std::string& origin, Pickle& pickle);

}  // namespace pickle_objects

}  // namespace troupe
