#include "runtime/file/pickle.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <optional>

#include "runtime/error.h"
#include "runtime/file/pickle_program.h"
#include "runtime/file/pickle_text.h"
#include "runtime/text.h"

namespace troupe {
namespace {

struct KnownFunction {
  std::string_view module, name;
  PickleFunction function;
};
constexpr auto known_functions = std::to_array<KnownFunction>({
    {"numpy.core.multiarray", "_reconstruct", PickleFunction::reconstruct},
    {"numpy._core.multiarray", "_reconstruct", PickleFunction::reconstruct},
    {"numpy.core.numeric", "_frombuffer", PickleFunction::frombuffer},
    {"numpy._core.numeric", "_frombuffer", PickleFunction::frombuffer},
    {"numpy", "ndarray", PickleFunction::ndarray},
    {"numpy", "dtype", PickleFunction::dtype},
    {"_codecs", "encode", PickleFunction::encode},
});

/// The bytes of an element; 0 for types that are not numbers or truth values.
std::size_t element_bytes(std::string_view type) {
  if (type.size() != 2 || std::string_view("biuf").find(type[0]) == std::string_view::npos ||
      std::string_view("1248").find(type[1]) == std::string_view::npos)
    return 0;
  return static_cast<std::size_t>(type[1] - '0');
}

}  // namespace

const PickleValue* PickleDict::find(std::string_view key) const {
  for (const auto& [name, value] : items)
    if (const auto* text = std::get_if<std::string_view>(&name); text != nullptr && *text == key)
      return &value;
  return nullptr;
}

/// The stack machine that a pickle is a program of. Each group of opcodes is one function, which
/// returns false for an opcode of another group.
class Unpickler {
 public:
  Unpickler(std::span<const std::byte> bytes, const std::string& origin, Pickle& pickle)
      : program_({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, origin),
        pickle_(pickle) {}

  void run() {
    for (std::int64_t count = 0;; ++count) {
      if (count == Pickle::most_opcodes)
        program_.fail(fmt::format("it has more than {} opcodes", count));
      const char opcode = program_.take(1)[0];
      if (opcode == '.') break;
      if (!number(opcode) && !text(opcode) && !container(opcode) && !memo(opcode) &&
          !object(opcode))
        program_.fail(fmt::format("the opcode 0x{:02x} is not supported",
                                  static_cast<unsigned>(static_cast<unsigned char>(opcode))),
                      "only numbers, texts, lists, dictionaries and NumPy arrays are read");
    }
    pickle_.value_ = pop();
  }

 private:
  // The stack. A mark hides the values below it.

  void push(PickleValue value) { stack_.push_back(value); }
  PickleValue pop() {
    if (stack_.size() == floor()) program_.fail("it takes a value from an empty stack");
    const PickleValue value = stack_.back();
    stack_.pop_back();
    return value;
  }
  template <class T>
  T pop_as(const char* what) {
    return as<T>(pop(), what);
  }
  PickleValue top() {
    push(pop());
    return stack_.back();
  }
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  /// The values above the last mark, which is removed.
  std::vector<PickleValue> pop_mark() {
    if (marks_.empty()) program_.fail("there is no mark on the stack");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickleValue> values(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return values;
  }
  template <class T>
  T as(const PickleValue& value, const char* what) const {
    if (const T* held = std::get_if<T>(&value)) return *held;
    program_.fail(fmt::format("{} is not where it should be", what));
  }
  const PickleValue& item(const PickleList* list, std::size_t index, const char* what) const {
    if (index >= list->items.size()) program_.fail(fmt::format("{} is missing", what));
    return list->items[index];
  }

  // Numbers.

  bool number(char opcode) {
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
        return push(program_.take_signed(program_.take_number(1))), true;
      case 0x8b:
        return push(program_.take_signed(program_.take_number(4))), true;
      case 'F':
        return push(program_.take_decimal_real()), true;
      case 'G':
        return push(program_.take_real()), true;
      default:
        return false;
    }
  }
  /// Python writes 00 and 01 for False and True.
  PickleValue whole_number_or_bool() {
    const std::string_view line = program_.take_line();
    if (line == "00" || line == "01") return line == "01";
    return program_.decimal(line);
  }

  // Texts and bytes.

  bool text(char opcode) {
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
  std::string_view kept(std::optional<std::string> decoded) {
    if (!decoded) program_.fail("a text is not in its encoding");
    return pickle_.texts_.emplace_back(std::move(*decoded));
  }

  // Lists, tuples and dictionaries.

  bool container(char opcode) {
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
  void drop() {
    if (!marks_.empty() && marks_.back() == stack_.size())
      marks_.pop_back();
    else
      pop();
  }
  void push_list(std::vector<PickleValue> items) {
    push(&pickle_.lists_.emplace_back(PickleList{std::move(items)}));
  }
  void tuple_of(std::size_t size) {
    std::vector<PickleValue> items(size);
    for (std::size_t i = size; i-- > 0;) items[i] = pop();
    push_list(std::move(items));
  }
  void append(const std::vector<PickleValue>& values) {
    auto& items = as<PickleList*>(top(), "a list")->items;
    items.insert(items.end(), values.begin(), values.end());
  }
  void push_dict(const std::vector<PickleValue>& items) {
    push(&pickle_.dicts_.emplace_back());
    set_items(items);
  }
  void set_item() {
    const PickleValue value = pop(), key = pop();
    set_items({key, value});
  }
  void set_items(const std::vector<PickleValue>& keys_and_values) {
    if (keys_and_values.size() % 2 != 0) program_.fail("a key has no value");
    auto& items = as<PickleDict*>(top(), "a dictionary")->items;
    for (std::size_t i = 0; i < keys_and_values.size(); i += 2)
      items.emplace_back(keys_and_values[i], keys_and_values[i + 1]);
  }

  // The memo: values by number, which the program may push again.

  bool memo(char opcode) {
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
  void check_protocol() {
    constexpr std::uint64_t newest = 5;
    if (const std::uint64_t protocol = program_.take_number(1); protocol > newest)
      program_.fail(fmt::format("its protocol is {}, newer than {}", protocol, newest),
                    "store it with pickle protocol 5 or older");
  }
  std::uint64_t line_number() { return static_cast<std::uint64_t>(program_.take_decimal()); }
  void memoize() {
    const std::uint64_t number = memo_.size();
    memo_[number] = top();
  }
  void recall(std::uint64_t number) {
    const auto found = memo_.find(number);
    if (found == memo_.end()) program_.fail(fmt::format("no value has the number {}", number));
    push(found->second);
  }

  // The functions of NumPy.

  bool object(char opcode) {
    switch (static_cast<unsigned char>(opcode)) {
      case 'c':
        return push_global(), true;
      case 0x93:
        return push_stack_global(), true;
      case 'R':
        return call(), true;
      case 'b':
        return build(), true;
      default:
        return false;
    }
  }
  void push_global() {
    const std::string_view module = program_.take_line();
    push(function(module, program_.take_line()));
  }
  void push_stack_global() {
    const auto name = pop_as<std::string_view>("the name of a function");
    push(function(pop_as<std::string_view>("the module of a function"), name));
  }
  PickleFunction function(std::string_view module, std::string_view name) const {
    for (const KnownFunction& known : known_functions)
      if (known.module == module && known.name == name) return known.function;
    program_.fail(
        fmt::format("it names {}.{}, which is not read", printable(module), printable(name)),
        "only numbers, texts, lists, dictionaries and NumPy arrays are read, and no code is run");
  }
  void call() {
    const auto* arguments = pop_as<PickleList*>("the arguments of a function");
    switch (pop_as<PickleFunction>("a function")) {
      case PickleFunction::encode:
        return push(encoded(arguments));
      case PickleFunction::dtype:
        return push(new_type(arguments));
      case PickleFunction::reconstruct:
        return push(&pickle_.arrays_.emplace_back());
      case PickleFunction::frombuffer:
        return push(from_buffer(arguments));
      case PickleFunction::ndarray:
        break;
    }
    program_.fail("numpy.ndarray is called");
  }
  std::string_view encoded(const PickleList* arguments) {
    const auto utf8 = as<std::string_view>(item(arguments, 0, "a text"), "a text");
    const auto encoding = as<std::string_view>(item(arguments, 1, "an encoding"), "an encoding");
    if (encoding != "latin1" && encoding != "latin-1")
      program_.fail(
          fmt::format("bytes have the encoding '{}', not latin1", printable(encoding, 20)));
    // A text may be encoded many times; each time it takes memory.
    if (utf8.size() > 2 * program_.size() - encoded_bytes_)
      program_.fail("its texts are larger than the file");
    encoded_bytes_ += utf8.size();
    return kept(pickle_text::to_latin1(utf8));
  }
  PickleType* new_type(const PickleList* arguments) {
    PickleType type{as<std::string_view>(item(arguments, 0, "a type"), "a type")};
    constexpr std::string_view orders = "<>|=";
    if (!type.name.empty() && orders.find(type.name[0]) != std::string_view::npos) {
      type.big_endian = type.name[0] == '>';
      type.name.remove_prefix(1);
    }
    if (element_bytes(type.name) == 0)
      program_.fail(fmt::format("an array has elements of the type '{}'", printable(type.name, 20)),
                    "only arrays of numbers are read");
    return &pickle_.types_.emplace_back(type);
  }
  PickleArray* from_buffer(const PickleList* arguments) {
    const auto order = as<std::string_view>(item(arguments, 3, "an order"), "an order");
    if (order != "C" && order != "F")
      program_.fail(fmt::format("an array has the order '{}', not C or F", printable(order, 20)));
    PickleArray& array = pickle_.arrays_.emplace_back();
    array.column_major = order == "F";
    fill(array, item(arguments, 2, "a shape"), item(arguments, 1, "a type"),
         item(arguments, 0, "the data of an array"));
    return &array;
  }
  void build() {
    const auto* state = pop_as<PickleList*>("the state of an object");
    const PickleValue built = top();
    if (PickleType* const* type = std::get_if<PickleType*>(&built)) {
      const auto order = as<std::string_view>(item(state, 1, "a byte order"), "a byte order");
      (*type)->big_endian = order == ">";
      return;
    }
    PickleArray& array = *as<PickleArray*>(built, "an array");
    array.column_major = as<bool>(item(state, 3, "an order"), "an order");
    fill(array, item(state, 1, "a shape"), item(state, 2, "a type"),
         item(state, 4, "the data of an array"));
  }
  void fill(PickleArray& array, const PickleValue& shape, const PickleValue& type,
            const PickleValue& data) const {
    array.shape = shape_of(*as<PickleList*>(shape, "a shape"));
    array.type = *as<PickleType*>(type, "a type");
    array.data = as<std::string_view>(data, "the data of an array");
    const auto elements = static_cast<std::uint64_t>(array.shape.element_count());
    const std::size_t size = element_bytes(array.type.name);
    if (array.data.size() / size != elements || array.data.size() % size != 0)
      program_.fail(fmt::format("an array of the shape {} and type {} has {} bytes",
                                to_string(array.shape), array.type.name, array.data.size()));
  }
  Shape shape_of(const PickleList& sizes) const {
    std::vector<std::int64_t> dims;
    for (const PickleValue& size : sizes.items) {
      if (dims.size() == Shape::max_rank)
        program_.fail(fmt::format("an array has more than {} axes", Shape::max_rank));
      dims.push_back(as<std::int64_t>(size, "the size of an axis"));
    }
    try {
      return Shape(dims);
    } catch (const Error& error) {
      program_.fail("the shape of an array is invalid: " + error.message());
    }
  }

  PickleProgram program_;
  Pickle& pickle_;
  std::size_t encoded_bytes_ = 0;
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;
  std::map<std::uint64_t, PickleValue> memo_;
};

Pickle::Pickle(std::span<const std::byte> bytes, const std::string& origin) {
  Unpickler(bytes, origin, *this).run();
}

}  // namespace troupe
