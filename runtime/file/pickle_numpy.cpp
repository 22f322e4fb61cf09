// NumPy's arrays: the five functions by which a pickle makes them.
#include <fmt/format.h>

#include <array>

#include "runtime/error.h"
#include "runtime/file/pickle_machine.h"
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

class NumpyMachine final : public PickleMachine {
 public:
  using PickleMachine::PickleMachine;

 private:
  const char* what_is_read() const override {
    return "only numbers, texts, lists, dictionaries and NumPy arrays are read";
  }

  bool object(char opcode) override {
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
    const std::string_view module = program().take_line();
    push(function(module, program().take_line()));
  }
  void push_stack_global() {
    const auto name = pop_as<std::string_view>("the name of a function");
    push(function(pop_as<std::string_view>("the module of a function"), name));
  }
  PickleFunction function(std::string_view module, std::string_view name) const {
    for (const KnownFunction& known : known_functions)
      if (known.module == module && known.name == name) return known.function;
    program().fail(
        fmt::format("it names {}.{}, which is not read", printable(module), printable(name)),
        "only numbers, texts, lists, dictionaries and NumPy arrays are read, and no code is run");
  }
  void call() {
    const auto* arguments = pop_as<PickleList*>("the arguments of a function");
    switch (pop_as<PickleFunction>("a function")) {
      case PickleFunction::encode:
        return push(encoded(arguments));
      case PickleFunction::dtype:
        return push(number_type(arguments));
      case PickleFunction::reconstruct:
        return push(new_array());
      case PickleFunction::frombuffer:
        return push(from_buffer(arguments));
      case PickleFunction::ndarray:
        break;
    }
    program().fail("numpy.ndarray is called");
  }
  std::string_view encoded(const PickleList* arguments) {
    const auto utf8 = as<std::string_view>(item(arguments, 0, "a text"), "a text");
    const auto encoding = as<std::string_view>(item(arguments, 1, "an encoding"), "an encoding");
    if (encoding != "latin1" && encoding != "latin-1")
      program().fail(
          fmt::format("bytes have the encoding '{}', not latin1", printable(encoding, 20)));
    // A text may be encoded many times; each time it takes memory.
    if (utf8.size() > 2 * program().size() - encoded_bytes_)
      program().fail("its texts are larger than the file");
    encoded_bytes_ += utf8.size();
    return kept(pickle_text::to_latin1(utf8));
  }
  PickleType* number_type(const PickleList* arguments) {
    PickleType type{as<std::string_view>(item(arguments, 0, "a type"), "a type")};
    constexpr std::string_view orders = "<>|=";
    if (!type.name.empty() && orders.find(type.name[0]) != std::string_view::npos) {
      type.big_endian = type.name[0] == '>';
      type.name.remove_prefix(1);
    }
    if (element_bytes(type.name) == 0)
      program().fail(
          fmt::format("an array has elements of the type '{}'", printable(type.name, 20)),
          "only arrays of numbers are read");
    return new_type(type);
  }
  PickleArray* from_buffer(const PickleList* arguments) {
    const auto order = as<std::string_view>(item(arguments, 3, "an order"), "an order");
    if (order != "C" && order != "F")
      program().fail(fmt::format("an array has the order '{}', not C or F", printable(order, 20)));
    PickleArray& array = *new_array();
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
      program().fail(fmt::format("an array of the shape {} and type {} has {} bytes",
                                 to_string(array.shape), array.type.name, array.data.size()));
  }
  Shape shape_of(const PickleList& sizes) const {
    std::vector<std::int64_t> dims;
    for (const PickleValue& size : sizes.items) {
      if (dims.size() == Shape::max_rank)
        program().fail(fmt::format("an array has more than {} axes", Shape::max_rank));
      dims.push_back(as<std::int64_t>(size, "the size of an axis"));
    }
    try {
      return Shape(dims);
    } catch (const Error& error) {
      program().fail("the shape of an array is invalid: " + error.message());
    }
  }

  std::size_t encoded_bytes_ = 0;
};

}  // namespace

void pickle_objects::read_numpy(std::span<const std::byte> bytes, const std::string& origin,
                                Pickle& pickle) {
  NumpyMachine(bytes, origin, pickle).run();
}

}  // namespace troupe
