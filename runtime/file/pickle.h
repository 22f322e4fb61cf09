#pragma once
// Reads the data in a Python pickle, protocols 0 to 5, without running code: numbers, strings,
// lists, tuples, dictionaries and NumPy arrays. A pickle is a program that may call any Python
// function. This reader calls none: it either knows the five functions by which NumPy stores an
// array, and refuses all others, or keeps each call as an object with the names that it has in the
// file.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/tensor/shape.h"

namespace troupe {

struct PickleList;
struct PickleDict;
struct PickleType;
struct PickleArray;
struct PickleName;
struct PickleObject;
struct PickleReference;

/// A function or class of Python that a pickle may name.
enum class PickleFunction : std::uint8_t { reconstruct, frombuffer, ndarray, dtype, encode };

/// A value of a pickle; std::monostate is None. Strings and bytes are not distinguished, nor are
/// lists and tuples. The Pickle owns the objects.
using PickleValue = std::variant<std::monostate, bool, std::int64_t, double, std::string_view,
                                 PickleList*, PickleDict*, PickleType*, PickleArray*,
                                 PickleFunction, PickleName*, PickleObject*, PickleReference*>;

struct PickleList {
  std::vector<PickleValue> items;
};

struct PickleDict {
  std::vector<std::pair<PickleValue, PickleValue>> items;

  /// The value of a string; null if there is none.
  const PickleValue* find(std::string_view key) const;
};

/// numpy.dtype of numbers or booleans.
struct PickleType {
  std::string_view name;  ///< kind and bytes: "u1", "f8"
  bool big_endian = false;
};

/// numpy.ndarray. The data have the size that shape and type state.
struct PickleArray {
  Shape shape;
  PickleType type;
  bool column_major = false;  ///< the first index changes fastest
  std::string_view data;
};

/// A function or class of Python by its name, such as "torch._utils", "_rebuild_tensor_v2".
struct PickleName {
  std::string_view module, name;
};

/// What Python would make by a call. Nothing is called.
struct PickleObject {
  PickleValue callee;      ///< usually a PickleName; None for a number that exceeds 64 bits
  PickleValue arguments;   ///< a list
  PickleValue state = {};  ///< the argument of its __setstate__, or None
  PickleList elements = {};
  PickleDict items = {};
};

/// An object outside of the pickle, such as the storage of a tensor.
struct PickleReference {
  PickleValue id;
};

/// How a pickle's objects are read.
enum class PickleObjects : std::uint8_t {
  numpy,  ///< arrays of NumPy; a pickle with other functions is refused
  named,  ///< as PickleName, PickleObject and PickleReference, whatever they are; but OrderedDict,
          ///< defaultdict and torch.Size, which are a PickleDict and a PickleList
};

/// A pickle that has been read. Immutable: usable from any thread.
class Pickle {
 public:
  /// Most opcodes of a pickle.
  static constexpr std::int64_t most_opcodes = 4'000'000;

  /// `bytes` must stay alive: strings and arrays are views of them where possible. Throws Error
  /// (bad_file) that names `origin` and the offset for damage, for functions that `objects`
  /// excludes, and for more than `most_opcodes`. Memory: less than 300 bytes for each opcode, and
  /// four times the size of `bytes` for strings that are stored in an encoding. The reader does not
  /// recurse. A value may contain itself, or another one many times.
  Pickle(std::span<const std::byte> bytes, const std::string& origin,
         PickleObjects objects = PickleObjects::numpy);
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  const PickleValue& value() const { return value_; }

 private:
  friend class PickleMachine;
  // Deques: a value refers to its object while others are added, and may contain itself.
  std::deque<PickleList> lists_;
  std::deque<PickleDict> dicts_;
  std::deque<PickleType> types_;
  std::deque<PickleArray> arrays_;
  std::deque<PickleName> names_;
  std::deque<PickleObject> objects_;
  std::deque<PickleReference> references_;
  std::deque<std::string> texts_;
  PickleValue value_;
};

}  // namespace troupe
