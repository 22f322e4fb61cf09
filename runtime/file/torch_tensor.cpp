#include "runtime/file/torch_tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>

#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe {
namespace {

constexpr std::array<TorchTypeName, std::tuple_size_v<Elements>> type_names{{
    {DType::f32, "FloatStorage", "float32"},
    {DType::f64, "DoubleStorage", "float64"},
    {DType::bf16, "BFloat16Storage", "bfloat16"},
    {DType::f16, "HalfStorage", "float16"},
    {DType::i8, "CharStorage", "int8"},
    {DType::i16, "ShortStorage", "int16"},
    {DType::i32, "IntStorage", "int32"},
    {DType::i64, "LongStorage", "int64"},
    {DType::u8, "ByteStorage", "uint8"},
    {DType::u16, "", "uint16"},
    {DType::u32, "", "uint32"},
    {DType::u64, "", "uint64"},
    {DType::boolean, "BoolStorage", "bool"},
}};

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::bad_file, fmt::format("reading {}: {}", where, what),
              "the file is damaged: copy or write it again with torch.save");
}

/// Tensors that cannot be read: what the names of their types and functions contain, and what makes
/// others of them.
struct Foreign {
  std::string_view part, kind, conversion;
};
constexpr auto foreign_kinds = std::to_array<Foreign>({
    {"omplex", "complex", "torch.view_as_real(tensor)"},
    {"sparse", "sparse", "tensor.to_dense()"},
    {"nested", "nested", "tensor.to_padded_tensor(0)"},
    {"_qtensor", "quantized", "tensor.dequantize()"},
    {"QInt", "quantized", "tensor.dequantize()"},
    {"QUInt", "quantized", "tensor.dequantize()"},
    {"qint", "quantized", "tensor.dequantize()"},
    {"quint", "quantized", "tensor.dequantize()"},
    {"loat8", "of 8-bit floats", "tensor.float()"},
});

void refuse_foreign(const std::string& where, std::string_view name) {
  for (const Foreign& foreign : foreign_kinds)
    if (name.find(foreign.part) != name.npos)
      throw Error(ErrorCode::unsupported,
                  fmt::format("reading {}: the tensor is {}, which Troupe does not read", where,
                              foreign.kind),
                  fmt::format("delete it from the dictionary, or save {}", foreign.conversion));
}

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::unsupported, fmt::format("reading {}: {}", where, what),
              "convert the tensor to a dense one of floating-point numbers, integers or bool "
              "before it is saved");
}

/// A call that makes a tensor.
struct Call {
  std::string_view function;
  const PickleList* arguments;
};

const PickleName* name_of_value(const PickleValue& value) {
  PickleName* const* name = std::get_if<PickleName*>(&value);
  return name == nullptr ? nullptr : *name;
}

std::optional<Call> call_of(const PickleValue& callee, const PickleValue& arguments) {
  const PickleName* name = name_of_value(callee);
  PickleList* const* list = std::get_if<PickleList*>(&arguments);
  if (name == nullptr || list == nullptr || !name->name.starts_with("_rebuild_") ||
      (name->module != "torch._utils" && name->module != "torch._tensor"))
    return std::nullopt;
  return Call{name->name, *list};
}

std::optional<Call> call_of(const PickleValue& value) {
  PickleObject* const* object = std::get_if<PickleObject*>(&value);
  if (object == nullptr) return std::nullopt;
  return call_of((*object)->callee, (*object)->arguments);
}

const PickleValue* argument(const Call& call, std::size_t index) {
  return index < call.arguments->items.size() ? &call.arguments->items[index] : nullptr;
}

/// The call that names a storage: without parameters and classes around it. A value may contain
/// itself, so the number of wrappers is limited.
std::optional<Call> innermost(const PickleValue& value) {
  constexpr int most_wrappers = 8;
  std::optional<Call> call = call_of(value);
  for (int i = 0; i < most_wrappers && call; ++i) {
    if (call->function == "_rebuild_parameter" ||
        call->function == "_rebuild_parameter_with_state") {
      const PickleValue* data = argument(*call, 0);
      call = data == nullptr ? std::nullopt : call_of(*data);
    } else if (call->function == "_rebuild_from_type_v2") {
      const PickleValue *function = argument(*call, 0), *arguments = argument(*call, 2);
      call = function == nullptr || arguments == nullptr ? std::nullopt
                                                         : call_of(*function, *arguments);
    } else {
      return call;
    }
  }
  return std::nullopt;
}

const PickleList* storage_id(const Call& call) {
  const PickleValue* storage = argument(call, 0);
  if (storage == nullptr) return nullptr;
  PickleReference* const* reference = std::get_if<PickleReference*>(storage);
  if (reference == nullptr) return nullptr;
  PickleList* const* id = std::get_if<PickleList*>(&(*reference)->id);
  return id == nullptr ? nullptr : *id;
}

/// The name of the type of a call of the second or third version: "FloatStorage" or "float32".
std::string_view type_name(const Call& call) {
  constexpr std::size_t dtype_argument = 6;
  const PickleValue* type = nullptr;
  if (call.function == "_rebuild_tensor_v3") {
    type = argument(call, dtype_argument);
  } else if (const PickleList* id = storage_id(call); id != nullptr && id->items.size() > 1) {
    type = &id->items[1];
  }
  const PickleName* name = type == nullptr ? nullptr : name_of_value(*type);
  return name == nullptr ? std::string_view() : name->name;
}

std::optional<DType> find_type(std::string_view name) {
  for (const TorchTypeName& type : type_names)
    if (!name.empty() && (name == type.storage || name == type.name)) return type.dtype;
  return std::nullopt;
}

std::int64_t whole_number(const PickleValue* value, const std::string& where, const char* what) {
  const auto* number = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  if (number == nullptr || *number < 0) fail(where, fmt::format("{} is not a whole number", what));
  return *number;
}

std::vector<std::int64_t> whole_numbers(const PickleValue* value, const std::string& where,
                                        const char* what) {
  PickleList* const* list = value == nullptr ? nullptr : std::get_if<PickleList*>(value);
  if (list == nullptr) fail(where, fmt::format("{} is not a tuple", what));
  if ((*list)->items.size() > Shape::max_rank)
    refuse(where, fmt::format("{} has {} axes, more than {}", what, (*list)->items.size(),
                              Shape::max_rank));
  std::vector<std::int64_t> numbers;
  for (const PickleValue& item : (*list)->items)
    numbers.push_back(whole_number(&item, where, what));
  return numbers;
}

Shape shape_of(const std::vector<std::int64_t>& sizes, const std::string& where) {
  try {
    return Shape(sizes);
  } catch (const Error& error) {
    fail(where, error.message());
  }
}

/// Throws unless all elements lie within so many bytes.
void check_inside(const TorchTensor& tensor, std::uint64_t bytes, const std::string& where) {
  if (tensor.shape.element_count() == 0) return;
  std::int64_t last = tensor.offset;
  bool overflows = false;
  for (int axis = 0; axis < tensor.shape.rank(); ++axis) {
    std::int64_t step = 0;
    overflows |= __builtin_mul_overflow(tensor.shape[axis] - 1,
                                        tensor.strides[static_cast<std::size_t>(axis)], &step) ||
                 __builtin_add_overflow(last, step, &last);
  }
  if (overflows || static_cast<std::uint64_t>(last) >= bytes / size_of(tensor.dtype))
    fail(where, fmt::format("{} of the offset {} and strides [{}] exceeds its storage of {} bytes",
                            to_string(tensor.shape), tensor.offset, fmt::join(tensor.strides, ", "),
                            bytes));
}

bool is_contiguous(const TorchTensor& tensor) {
  std::int64_t expected = 1;
  for (int axis = tensor.shape.rank() - 1; axis >= 0; --axis) {
    if (tensor.shape[axis] != 1 && tensor.strides[static_cast<std::size_t>(axis)] != expected)
      return false;
    expected *= tensor.shape[axis];
  }
  return true;
}

template <std::size_t size>
void copy_row(const std::byte* from, std::int64_t stride, std::int64_t count, std::byte* to) {
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(to + static_cast<std::size_t>(i) * size, from + i * stride, size);
}

/// Copies elements in row-major order, one run of the last axis after another.
void gather(const TorchTensor& tensor, std::span<const std::byte> storage, std::byte* to) {
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype));
  const int rank = tensor.shape.rank();
  const std::int64_t run = rank == 0 ? 1 : tensor.shape[rank - 1];
  const std::int64_t stride = rank == 0 ? 0 : tensor.strides.back() * size;
  const auto copy = size == 1   ? copy_row<1>
                    : size == 2 ? copy_row<2>
                    : size == 4 ? copy_row<4>
                                : copy_row<8>;
  if (tensor.shape.element_count() == 0) return;
  std::array<std::int64_t, Shape::max_rank> index{};
  std::int64_t from = tensor.offset * size;
  for (std::int64_t done = 0; done < tensor.shape.element_count(); done += run) {
    copy(storage.data() + from, stride, run, to + done * size);
    for (int axis = rank - 2; axis >= 0; --axis) {
      const auto at = static_cast<std::size_t>(axis);
      from += tensor.strides[at] * size;
      if (++index[at] < tensor.shape[axis]) break;
      from -= tensor.shape[axis] * tensor.strides[at] * size;
      index[at] = 0;
    }
  }
}

void check_booleans(const Tensor& tensor, const std::string& where) {
  if (tensor.dtype() != DType::boolean) return;
  for (const std::byte value : std::span(tensor.raw(), tensor.bytes()))
    if (value > std::byte{1})
      fail(where, fmt::format("it holds {} where 0 or 1 is possible", std::to_integer<int>(value)));
}

}  // namespace

bool is_torch_tensor(const PickleValue& value) { return call_of(value).has_value(); }

bool is_integer_torch_tensor(const PickleValue& value) {
  const std::optional<Call> call = innermost(value);
  const std::optional<DType> dtype = call ? find_type(type_name(*call)) : std::nullopt;
  return dtype && !is_floating(*dtype);
}

const TorchTypeName& torch_type_name(DType dtype) {
  return *std::ranges::find(type_names, dtype, &TorchTypeName::dtype);
}

DType torch_dtype(std::string_view name, const std::string& where) {
  if (const auto dtype = find_type(name)) return *dtype;
  refuse_foreign(where, name);
  refuse(where, fmt::format("its elements are {}", printable(name, 40)));
}

TorchTensor torch_tensor(const PickleValue& value, const std::string& where) {
  const std::optional<Call> call = innermost(value);
  if (!call) fail(where, "it is not a PyTorch tensor");
  if (call->function != "_rebuild_tensor" && call->function != "_rebuild_tensor_v2" &&
      call->function != "_rebuild_tensor_v3") {
    refuse_foreign(where, call->function);
    refuse(where, fmt::format("it is made by {}", printable(call->function, 60)));
  }
  const PickleList* id = storage_id(*call);
  constexpr std::size_t key_item = 2, count_item = 4;
  if (id == nullptr || id->items.size() <= count_item ||
      !std::holds_alternative<std::string_view>(id->items[key_item]))
    fail(where, "it names no storage");
  TorchTensor tensor{.storage = std::get<std::string_view>(id->items[key_item]),
                     .storage_bytes = 0,
                     .dtype = torch_dtype(type_name(*call), where),
                     .offset = whole_number(argument(*call, 1), where, "its offset"),
                     .shape = {},
                     .strides = whole_numbers(argument(*call, 3), where, "its strides")};
  const std::vector<std::int64_t> sizes = whole_numbers(argument(*call, 2), where, "its shape");
  tensor.shape = shape_of(sizes, where);
  if (tensor.strides.size() != sizes.size())
    fail(where, fmt::format("its shape has {} axes, but its strides {}", sizes.size(),
                            tensor.strides.size()));
  for (std::size_t axis = 0; axis < sizes.size(); ++axis)
    if (sizes[axis] == 1) tensor.strides[axis] = 0;  // it is not used, and may be any number
  const auto count = static_cast<std::uint64_t>(
      whole_number(&id->items[count_item], where, "the size of its storage"));
  const PickleName* storage = name_of_value(id->items[1]);
  const bool in_bytes = storage != nullptr && storage->name == "UntypedStorage";
  if (__builtin_mul_overflow(count, in_bytes ? 1 : size_of(tensor.dtype), &tensor.storage_bytes))
    fail(where, fmt::format("its storage has {} elements", count));
  check_inside(tensor, tensor.storage_bytes, where);
  return tensor;
}

std::uint64_t copied_bytes(const TorchTensor& tensor, std::uint64_t begin) {
  const bool is_aligned = begin % size_of(tensor.dtype) == 0;
  if (is_aligned && is_contiguous(tensor) && tensor.dtype != DType::boolean) return 0;
  const auto elements = static_cast<std::uint64_t>(tensor.shape.element_count());
  std::uint64_t bytes = 0;
  const bool overflows = __builtin_mul_overflow(elements, size_of(tensor.dtype), &bytes);
  return overflows ? std::numeric_limits<std::uint64_t>::max() : bytes;
}

Tensor elements_of(const TorchTensor& tensor, std::span<const std::byte> storage,
                   std::shared_ptr<const void> owner, std::uint64_t most_bytes,
                   const std::string& where) {
  check_inside(tensor, storage.size(), where);
  const std::size_t size = size_of(tensor.dtype);
  const auto begin = static_cast<std::size_t>(tensor.offset) * size;
  const bool is_empty = tensor.shape.element_count() == 0;
  Tensor result;
  if (!is_empty && is_contiguous(tensor) &&
      (reinterpret_cast<std::uintptr_t>(storage.data()) + begin) % size == 0) {
    // Tensors are never written by their readers; Storage has no const form.
    result = Tensor::view(Storage::wrap(const_cast<std::byte*>(storage.data()), storage.size(),
                                        Device{}, std::move(owner)),
                          begin, tensor.shape, tensor.dtype);
  } else {
    const auto bytes = static_cast<std::uint64_t>(tensor.shape.element_count()) * size;
    if (bytes > most_bytes)
      fail(where, fmt::format("{} has {} bytes, more than {}", to_string(tensor.shape), bytes,
                              most_bytes));
    result = Tensor::empty(tensor.shape, tensor.dtype, Device::cpu());
    gather(tensor, storage, result.raw());
  }
  check_booleans(result, where);
  return result;
}

}  // namespace troupe
