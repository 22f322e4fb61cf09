#include "runtime/flow/wire.h"

#include <gmock/gmock.h>

#include <cstring>
#include <functional>
#include <limits>

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

enum class Colour : std::uint8_t { red, green };
constexpr Colour last_enumerator(Colour) { return Colour::green; }

struct Inner {
  std::string name;
  std::int64_t count = 0;
  static void members(auto& self, auto& visit) {
    visit(self.name);
    visit(self.count);
  }
};

struct Message {
  Tensor tensor;
  double ratio = 0;
  std::int32_t below_zero = 0;
  bool flag = false;
  Colour colour = Colour::red;
  std::vector<Tensor> tensors;
  std::vector<Inner> inner;
  std::optional<Inner> maybe, absent;
  std::variant<std::uint32_t, Inner> either;
  std::optional<Error> error;
  std::chrono::nanoseconds time{0};
  static void members(auto& self, auto& visit) {
    visit(self.tensor);
    visit(self.ratio);
    visit(self.below_zero);
    visit(self.flag);
    visit(self.colour);
    visit(self.tensors);
    visit(self.inner);
    visit(self.maybe);
    visit(self.absent);
    visit(self.either);
    visit(self.error);
    visit(self.time);
  }
};

Message message() {
  return {.tensor = Tensor::zeros({2, 3}),
          .ratio = 0.1,
          .below_zero = -7,
          .flag = true,
          .colour = Colour::green,
          .tensors = {Tensor(), Tensor::zeros({1}, DType::i64)},
          .inner = {{"a", -1}, {"", 2}},
          .maybe = Inner{std::string("\0\xff", 2), 3},
          .absent = {},
          .either = Inner{"b", 4},
          .error = Error(ErrorCode::bad_file, "what", "remedy"),
          .time = std::chrono::nanoseconds(-5)};
}

template <class T>
std::string bytes_of(const T& value) {
  WireWriter writer;
  writer(value);
  return writer.bytes;
}

template <class T>
T read(std::string_view bytes) {
  T value{};
  WireReader reader(bytes);
  reader(value);
  reader.check_end();
  return value;
}

/// The message of the Error{bad_message} that reading the bytes throws.
template <class T>
std::string refusal(std::string_view bytes) {
  try {
    read<T>(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_message);
    return error.message();
  }
  return "it was read";
}

TEST(Wire, KeepsEveryMember) {
  WireWriter writer;
  writer(message());
  Message got;
  WireReader reader(writer.bytes);
  reader(got);
  reader.check_end();
  EXPECT_EQ(got.ratio, 0.1);
  EXPECT_EQ(got.below_zero, -7);
  EXPECT_TRUE(got.flag);
  EXPECT_EQ(got.colour, Colour::green);
  ASSERT_EQ(got.inner.size(), 2u);
  EXPECT_EQ(got.inner[0].name, "a");
  EXPECT_EQ(got.inner[1].count, 2);
  ASSERT_TRUE(got.maybe);
  EXPECT_EQ(got.maybe->name, std::string("\0\xff", 2));
  EXPECT_FALSE(got.absent);
  EXPECT_EQ(std::get<Inner>(got.either).count, 4);
  ASSERT_TRUE(got.error);
  EXPECT_EQ(got.error->code(), ErrorCode::bad_file);
  EXPECT_EQ(got.error->message(), "what");
  EXPECT_EQ(got.error->remedy(), "remedy");
  EXPECT_EQ(got.time.count(), -5);
}

TEST(Wire, LeavesTheElementsOfTensorsToATransport) {
  WireWriter writer;
  writer(message());
  ASSERT_EQ(writer.tensors.size(), 2u) << "an undefined tensor has no elements";
  Message got;
  WireReader reader(writer.bytes);
  reader(got);
  const auto expected = reader.take_tensors();
  ASSERT_EQ(expected.size(), 2u);
  EXPECT_EQ(expected[0].place, &got.tensor);
  EXPECT_EQ(expected[0].meta.shape, Shape({2, 3}));
  EXPECT_EQ(expected[1].place, &got.tensors[1]);
  EXPECT_EQ(expected[1].meta.dtype, DType::i64);
  EXPECT_FALSE(got.tensors[0].defined());
}

TEST(Wire, RefusesEveryShorterMessage) {
  const std::string whole = bytes_of(message());
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(refusal<Message>(whole.substr(0, size)), "it was read") << size << " bytes";
}

TEST(Wire, RefusesBytesThatAreLeftOver) {
  EXPECT_THAT(refusal<Message>(bytes_of(message()) + "x"), HasSubstr("1 bytes too many"));
}

TEST(Wire, RefusesCountsBeyondTheBytesThatAreLeft) {
  const std::string count = bytes_of(std::numeric_limits<std::uint32_t>::max());
  EXPECT_THAT(refusal<std::string>(count + "abc"), HasSubstr("3 bytes for 4294967295 items"));
  EXPECT_THAT(refusal<std::vector<Inner>>(count), HasSubstr("0 bytes for 4294967295 items"));
  EXPECT_THAT(refusal<std::vector<Tensor>>(count + "abc"), HasSubstr("items"));
}

TEST(Wire, RefusesValuesBeyondTheirType) {
  EXPECT_THAT(refusal<Colour>(std::string(1, '\2')), HasSubstr("the value 2"));
  EXPECT_THAT(refusal<bool>(std::string(1, '\2')), HasSubstr("the value 2"));
  EXPECT_THAT(refusal<std::optional<Inner>>(std::string(1, '\7')), HasSubstr("the value 7"));
  using Either = std::variant<std::uint32_t, Inner>;
  EXPECT_THAT(refusal<Either>(std::string(1, '\2')), HasSubstr("the value 2"));
  EXPECT_THAT(refusal<ErrorCode>(bytes_of(std::int32_t{-1})), HasSubstr("the value"));
  EXPECT_EQ(read<Colour>(std::string(1, '\1')), Colour::green);
}

TEST(Wire, RefusesLayoutsThatAShapeCannotHave) {
  std::string bytes = bytes_of(Tensor::zeros({2}));
  const std::size_t layout = 2;  // behind "defined" and the element type
  ASSERT_EQ(bytes[layout], static_cast<char>(Layout::row_major));
  bytes[layout] = static_cast<char>(Layout::nhwc);
  EXPECT_THAT(refusal<Tensor>(bytes), HasSubstr("layout nhwc"));
}

TEST(Wire, RefusesTensorsThatCannotBe) {
  const std::string whole = bytes_of(Tensor::zeros({2, 3}));  // defined, dtype, layout, rank, dims
  for (const auto& [at, value] : {std::pair{1, 200}, {2, 3}, {3, 7}, {11, 0xff}}) {
    std::string damaged = whole;
    damaged[static_cast<std::size_t>(at)] = static_cast<char>(value);
    EXPECT_NE(refusal<Tensor>(damaged), "it was read") << "byte " << at;
  }
}

}  // namespace
}  // namespace troupe
