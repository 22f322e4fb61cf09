#include "runtime/file/pickle_machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/file/pickle_text.h"

namespace troupe {

void PickleMachine::run() {
  for (std::int64_t count = 0;; ++count) {
    if (count == Pickle::most_opcodes)
      program_.fail(fmt::format("it has more than {} opcodes", count));
    const char opcode = program_.take(1)[0];
    if (opcode == '.') break;
    if (!number(opcode) && !text(opcode) && !container(opcode) && !memo(opcode) && !object(opcode))
      program_.fail(fmt::format("the opcode 0x{:02x} is not supported",
                                static_cast<unsigned>(static_cast<unsigned char>(opcode))),
                    what_is_read());
  }
  pickle_.value_ = pop();
}

PickleValue PickleMachine::pop() {
  if (stack_.size() == floor()) program_.fail("it takes a value from an empty stack");
  const PickleValue value = stack_.back();
  stack_.pop_back();
  return value;
}

PickleValue PickleMachine::top() {
  push(pop());
  return stack_.back();
}

std::vector<PickleValue> PickleMachine::pop_mark() {
  if (marks_.empty()) program_.fail("there is no mark on the stack");
  const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<PickleValue> values(first, stack_.end());
  stack_.erase(first, stack_.end());
  marks_.pop_back();
  return values;
}

const PickleValue& PickleMachine::item(const PickleList* list, std::size_t index,
                                       const char* what) const {
  if (index >= list->items.size()) program_.fail(fmt::format("{} is missing", what));
  return list->items[index];
}

void PickleMachine::fail_to_find(const char* what) const {
  program_.fail(fmt::format("{} is not where it should be", what));
}

PickleList* PickleMachine::new_list(std::vector<PickleValue> items) {
  return &pickle_.lists_.emplace_back(PickleList{std::move(items)});
}

PickleObject* PickleMachine::new_object(const PickleValue& callee, const PickleValue& arguments) {
  return &pickle_.objects_.emplace_back(PickleObject{
      .callee = callee, .arguments = arguments, .state = {}, .elements = {}, .items = {}});
}

PickleReference* PickleMachine::new_reference(const PickleValue& id) {
  return &pickle_.references_.emplace_back(PickleReference{id});
}

std::string_view PickleMachine::kept(std::optional<std::string> decoded) {
  if (!decoded) program_.fail("a text is not in its encoding");
  return pickle_.texts_.emplace_back(std::move(*decoded));
}

// Numbers.

bool PickleMachine::number(char opcode) {
  switch (static_cast<unsigned char>(opcode)) {
    case 'N':
      return push(std::monostate{}), true;
    case 0x88:
      return push(true), true;
    case 0x89:
      return push(false), true;
    case 'I':
      return push(whole_number_or_bool()), true;
    case 'L':
      return push(program_.take_decimal()), true;
    case 'K':
      return push(static_cast<std::int64_t>(program_.take_number(1))), true;
    case 'M':
      return push(static_cast<std::int64_t>(program_.take_number(2))), true;
    case 'J':
      return push(program_.take_signed(4)), true;
    case 0x8a:
      return push(counted_integer(1)), true;
    case 0x8b:
      return push(counted_integer(4)), true;
    case 'F':
      return push(program_.take_decimal_real()), true;
    case 'G':
      return push(program_.take_real()), true;
    default:
      return false;
  }
}

/// Python writes 00 and 01 for False and True.
PickleValue PickleMachine::whole_number_or_bool() {
  const std::string_view line = program_.take_line();
  if (line == "00" || line == "01") return line == "01";
  return program_.decimal(line);
}

PickleValue PickleMachine::counted_integer(std::size_t size) {
  const std::uint64_t bytes = program_.take_number(size);
  if (bytes <= sizeof(std::int64_t)) return program_.take_signed(bytes);
  return long_integer(bytes);
}

PickleValue PickleMachine::long_integer(std::uint64_t bytes) {
  program_.fail(fmt::format("an integer has {} bytes, more than 8", bytes));
}

// Texts and bytes.

bool PickleMachine::text(char opcode) {
  switch (static_cast<unsigned char>(opcode)) {
    case 'U':
    case 'C':
    case 0x8c:
      return push(program_.take_counted(1)), true;
    case 'T':
    case 'X':
    case 'B':
      return push(program_.take_counted(4)), true;
    case 0x8d:
    case 0x8e:
    case 0x96:
      return push(program_.take_counted(8)), true;
    case 'S':
      return push(kept(pickle_text::from_literal(program_.take_line()))), true;
    case 'V':
      return push(kept(pickle_text::from_raw_unicode(program_.take_line()))), true;
    default:
      return false;
  }
}

// Lists, tuples and dictionaries.

bool PickleMachine::container(char opcode) {
  switch (static_cast<unsigned char>(opcode)) {
    case '(':
      return marks_.push_back(stack_.size()), true;
    case '0':
      return drop(), true;
    case '1':
      return pop_mark(), true;
    case '2':
      return push(top()), true;
    case ']':
    case ')':
      return push_list({}), true;
    case 'l':
    case 't':
      return push_list(pop_mark()), true;
    case 0x85:
      return tuple_of(1), true;
    case 0x86:
      return tuple_of(2), true;
    case 0x87:
      return tuple_of(3), true;
    case 'a':
      return append({pop()}), true;
    case 'e':
      return append(pop_mark()), true;
    case '}':
      return push_dict({}), true;
    case 'd':
      return push_dict(pop_mark()), true;
    case 's':
      return set_item(), true;
    case 'u':
      return set_items(pop_mark()), true;
    default:
      return false;
  }
}

/// Python drops a mark with the same opcode.
void PickleMachine::drop() {
  if (!marks_.empty() && marks_.back() == stack_.size())
    marks_.pop_back();
  else
    pop();
}

void PickleMachine::tuple_of(std::size_t size) {
  std::vector<PickleValue> items(size);
  for (std::size_t i = size; i-- > 0;) items[i] = pop();
  push_list(std::move(items));
}

void PickleMachine::append(const std::vector<PickleValue>& values) {
  auto& items = as<PickleList*>(top(), "a list")->items;
  items.insert(items.end(), values.begin(), values.end());
}

void PickleMachine::push_dict(const std::vector<PickleValue>& items) {
  push(new_dict());
  set_items(items);
}

void PickleMachine::set_item() {
  const PickleValue value = pop(), key = pop();
  set_items({key, value});
}

void PickleMachine::set_items(const std::vector<PickleValue>& keys_and_values) {
  if (keys_and_values.size() % 2 != 0) program_.fail("a key has no value");
  add_items(*as<PickleDict*>(top(), "a dictionary"), keys_and_values);
}

void PickleMachine::add_items(PickleDict& to, const std::vector<PickleValue>& keys_and_values) {
  for (std::size_t i = 0; i + 1 < keys_and_values.size(); i += 2)
    to.items.emplace_back(keys_and_values[i], keys_and_values[i + 1]);
}

// The memo: values by number, which the program may push again.

bool PickleMachine::memo(char opcode) {
  switch (static_cast<unsigned char>(opcode)) {
    case 0x80:
      return check_protocol(), true;
    case 0x95:
      return program_.take_number(8), true;  // the length of a frame: for streams
    case 'p':
      return memo_[line_number()] = top(), true;
    case 'q':
      return memo_[program_.take_number(1)] = top(), true;
    case 'r':
      return memo_[program_.take_number(4)] = top(), true;
    case 0x94:
      return memoize(), true;
    case 'g':
      return recall(line_number()), true;
    case 'h':
      return recall(program_.take_number(1)), true;
    case 'j':
      return recall(program_.take_number(4)), true;
    default:
      return false;
  }
}

void PickleMachine::check_protocol() {
  constexpr std::uint64_t newest = 5;
  if (const std::uint64_t protocol = program_.take_number(1); protocol > newest)
    program_.fail(fmt::format("its protocol is {}, newer than {}", protocol, newest),
                  "store it with pickle protocol 5 or older");
}

void PickleMachine::memoize() {
  const std::uint64_t number = memo_.size();
  memo_[number] = top();
}

void PickleMachine::recall(std::uint64_t number) {
  const auto found = memo_.find(number);
  if (found == memo_.end()) program_.fail(fmt::format("no value has the number {}", number));
  push(found->second);
}

}  // namespace troupe
