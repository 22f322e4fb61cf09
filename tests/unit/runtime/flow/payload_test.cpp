#include "runtime/flow/payload.h"

#include <gmock/gmock.h>

namespace troupe {
namespace {

enum class Colour : std::uint8_t { red, green };

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
  static void members(auto& self, auto& visit) {
    visit(self.tensor);
    visit(self.ratio);
    visit(self.below_zero);
    visit(self.flag);
    visit(self.colour);
    visit(self.tensors);
    visit(self.inner);
  }
};

const PayloadCodec codec = payload_codec<Message>();

Message message() {
  return {Tensor::zeros({2, 3}), 0.1, -7, true, Colour::green, {Tensor(), Tensor::zeros({1})},
          {{"a", -1}, {"", 2}}};
}

std::shared_ptr<const Message> assembled(Parts parts) {
  return std::static_pointer_cast<const Message>(codec.put_together(std::move(parts)));
}

TEST(Payload, ComesBackAsItWas) {
  const Message sent = message();
  const auto got = assembled(codec.take_apart(&sent));
  EXPECT_EQ(got->tensor.storage(), sent.tensor.storage());  // a handle, not a copy
  EXPECT_EQ(got->ratio, 0.1);
  EXPECT_EQ(got->below_zero, -7);
  EXPECT_TRUE(got->flag);
  EXPECT_EQ(got->colour, Colour::green);
  ASSERT_EQ(got->tensors.size(), 2u);
  EXPECT_FALSE(got->tensors[0].defined());
  ASSERT_EQ(got->inner.size(), 2u);
  EXPECT_EQ(got->inner[0].name, "a");
  EXPECT_EQ(got->inner[0].count, -1);
}

TEST(Payload, OfANumberIsTheNumber) {
  const PayloadCodec numbers = payload_codec<int>();
  const int sent = -3;
  EXPECT_EQ(*std::static_pointer_cast<const int>(numbers.put_together(numbers.take_apart(&sent))),
            -3);
}

TEST(Payload, OfATypeThatListsNoMembersCannotLeave) {
  struct Opaque {
    std::shared_ptr<int> pointer;
  };
  EXPECT_FALSE(payload_codec<Opaque>());
}

TEST(Payload, RefusesPartsThatAreMissing) {
  const Message sent = message();
  for (const auto& damage :
       std::vector<std::function<void(Parts&)>>{[](Parts& parts) { parts.tensors.pop_back(); },
                                                [](Parts& parts) { parts.numbers.pop_back(); },
                                                [](Parts& parts) { parts.texts.pop_back(); }}) {
    Parts parts = codec.take_apart(&sent);
    damage(parts);
    EXPECT_THROW(assembled(std::move(parts)), Error);
  }
}

TEST(Payload, RefusesPartsThatAreLeftOver) {
  const Message sent = message();
  Parts parts = codec.take_apart(&sent);
  parts.numbers.push_back(1);
  EXPECT_THROW(assembled(std::move(parts)), Error);
}

TEST(Payload, RefusesAListLongerThanAllThatThereIs) {
  const Message sent{.tensor = Tensor::zeros({1})};
  Parts parts = codec.take_apart(&sent);
  parts.numbers.at(4) = std::uint64_t{1} << 60;  // how many tensors
  EXPECT_THROW(assembled(std::move(parts)), Error);
}

}  // namespace
}  // namespace troupe
