#include "runtime/flow/payload.h"

#include <gmock/gmock.h>

namespace troupe {
namespace {

struct Message {
  Tensor tensor;
  std::int32_t number = 0;
  static void members(auto& self, auto& visit) {
    visit(self.tensor);
    visit(self.number);
  }
};

/// The message after a way through bytes; the tensors are handed over as a transport would.
template <class T>
std::shared_ptr<const T> through_bytes(const T& message) {
  const PayloadCodec codec = payload_codec<T>();
  WireWriter writer;
  codec.write(&message, writer);
  WireReader reader(writer.bytes);
  auto payload = codec.read(reader);
  reader.check_end();
  const auto expected = reader.take_tensors();
  EXPECT_EQ(expected.size(), writer.tensors.size());
  for (std::size_t i = 0; i < expected.size(); ++i) *expected[i].place = writer.tensors[i];
  return std::static_pointer_cast<const T>(payload);
}

TEST(Payload, ComesBackAsItWas) {
  const Message sent{Tensor::zeros({2, 3}), -7};
  const auto got = through_bytes(sent);
  EXPECT_EQ(got->tensor.storage(), sent.tensor.storage());  // a handle, not a copy
  EXPECT_EQ(got->number, -7);
}

TEST(Payload, OfANumberIsTheNumber) { EXPECT_EQ(*through_bytes(-3), -3); }

TEST(Payload, OfATypeThatListsNoMembersCannotLeave) {
  struct Opaque {
    std::shared_ptr<int> pointer;
  };
  EXPECT_FALSE(payload_codec<Opaque>());
}

}  // namespace
}  // namespace troupe
