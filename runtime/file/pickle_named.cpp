// Objects by their names: what Python would call is kept, and nothing is called.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/file/pickle_machine.h"

namespace troupe {
namespace {

constexpr auto dictionaries = std::to_array<PickleName>({
    {"collections", "OrderedDict"},
    {"collections", "defaultdict"},
    {"collections", "Counter"},
    {"__builtin__", "dict"},
    {"builtins", "dict"},
});
constexpr PickleName torch_size{"torch", "Size"};

bool is(const PickleName& a, const PickleName& b) {
  return a.module == b.module && a.name == b.name;
}

class NamedMachine final : public PickleMachine {
 public:
  using PickleMachine::PickleMachine;

 private:
  const char* what_is_read() const override {
    return "the file is damaged, or was written by another program than Python's pickle";
  }
  PickleValue long_integer(std::uint64_t bytes) override {
    return new_object(std::monostate{}, program().take(bytes));
  }
  void append(const std::vector<PickleValue>& values) override {
    const PickleValue target = top();
    PickleObject* const* object = std::get_if<PickleObject*>(&target);
    if (object == nullptr) return PickleMachine::append(values);
    auto& elements = (*object)->elements.items;
    elements.insert(elements.end(), values.begin(), values.end());
  }
  void set_items(const std::vector<PickleValue>& keys_and_values) override {
    const PickleValue target = top();
    PickleObject* const* object = std::get_if<PickleObject*>(&target);
    if (object == nullptr) return PickleMachine::set_items(keys_and_values);
    if (keys_and_values.size() % 2 != 0) program().fail("a key has no value");
    add_items((*object)->items, keys_and_values);
  }

  bool object(char opcode) override {
    switch (static_cast<unsigned char>(opcode)) {
      case 'c':
        return push(name_in_lines()), true;
      case 0x93:
        return push_stack_global(), true;
      case 'R':
      case 0x81:
        return call(), true;
      case 0x92:
        return call_with_keywords(), true;
      case 'b':
        return build(), true;
      case 'Q':
        return push(new_reference(pop())), true;
      case 'P':
        return push(new_reference(program().take_line())), true;
      default:
        return old_object(opcode) || set(opcode);
    }
  }
  /// Instances of protocol 0 and 1.
  bool old_object(char opcode) {
    if (opcode == 'i') {
      const PickleValue callee = name_in_lines();
      return push(new_object(callee, new_list(pop_mark()))), true;
    }
    if (opcode != 'o') return false;
    std::vector<PickleValue> values = pop_mark();
    if (values.empty()) program().fail("an object has no class");
    const PickleValue callee = values.front();
    values.erase(values.begin());
    return push(new_object(callee, new_list(std::move(values)))), true;
  }
  bool set(char opcode) {
    switch (static_cast<unsigned char>(opcode)) {
      case 0x8f:
        return push(new_list({})), true;
      case 0x90:
        return append(pop_mark()), true;
      case 0x91:
        return push(new_list(pop_mark())), true;
      default:
        return false;
    }
  }

  PickleName* name_in_lines() {
    const std::string_view module = program().take_line();
    return new_name({module, program().take_line()});
  }
  void push_stack_global() {
    const auto name = pop_as<std::string_view>("the name of a function");
    push(new_name({pop_as<std::string_view>("the module of a function"), name}));
  }
  void call() {
    const auto arguments = pop_as<PickleList*>("the arguments of a function");
    const PickleValue callee = pop();
    push(made_by(callee, arguments));
  }
  void call_with_keywords() {
    pop();
    call();
  }
  /// Plain containers of Python and PyTorch are values; what a dictionary begins with is None, a
  /// default, or a list of pairs.
  PickleValue made_by(const PickleValue& callee, PickleList* arguments) {
    PickleName* const* name = std::get_if<PickleName*>(&callee);
    if (name != nullptr && is(**name, torch_size) && arguments->items.size() == 1)
      return arguments->items.front();
    const auto is_callee = [&](const PickleName& known) { return is(**name, known); };
    if (name == nullptr || std::ranges::none_of(dictionaries, is_callee))
      return new_object(callee, arguments);
    PickleDict* const dict = new_dict();
    if (!arguments->items.empty())
      if (PickleList* const* pairs = std::get_if<PickleList*>(&arguments->items.front()))
        add_pairs(*dict, **pairs);
    return dict;
  }
  void add_pairs(PickleDict& dict, const PickleList& pairs) {
    // A list may be given to many dictionaries; each of them takes memory.
    copied_pairs_ += pairs.items.size();
    if (copied_pairs_ > program().size()) program().fail("its dictionaries exceed the file");
    for (const PickleValue& pair : pairs.items) {
      const auto* key_and_value = as<PickleList*>(pair, "a key with its value");
      dict.items.emplace_back(item(key_and_value, 0, "a key"), item(key_and_value, 1, "a value"));
    }
  }
  /// The attributes of a dictionary, such as `_metadata` of a state_dict, are not needed.
  void build() {
    const PickleValue state = pop(), built = top();
    if (PickleObject* const* object = std::get_if<PickleObject*>(&built))
      (*object)->state = state;
    else
      as<PickleDict*>(built, "an object");
  }

  std::size_t copied_pairs_ = 0;
};

}  // namespace

void pickle_objects::read_named(std::span<const std::byte> bytes, const std::string& origin,
                                Pickle& pickle) {
  NamedMachine(bytes, origin, pickle).run();
}

}  // namespace troupe
