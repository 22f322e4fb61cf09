#include "runtime/tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "runtime/error.h"
#include "runtime/tensor/backend.h"
#include "runtime/tensor/cast.h"
#include "runtime/tensor/text.h"

namespace troupe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.message();
  }
  return "nothing was thrown";
}

Tensor counting(const Shape& shape) {
  Tensor result = Tensor::empty(shape, DType::f32, Device::cpu());
  float next = 0;
  for (float& value : result.elements<float>()) value = next++;
  return result;
}

TEST(Shape, CountsItsElements) {
  EXPECT_EQ((Shape{2, 3, 4}).element_count(), 24);
  EXPECT_EQ(Shape{}.element_count(), 1) << "a scalar";
  EXPECT_EQ((Shape{2, 0, 4}).element_count(), 0);
}

TEST(Shape, CountsNegativeAxesFromTheEnd) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.dim(-1), 4);
  EXPECT_EQ(shape.dim(-3), 2);
  EXPECT_THAT(message_of([&] { shape.dim(3); }), HasSubstr("axis 3 of shape [2, 3, 4]"));
  EXPECT_THAT(message_of([&] { shape.dim(-4); }), HasSubstr("axis -4"));
  EXPECT_THROW(Shape{}.dim(0), Error);
}

TEST(Shape, RefusesNegativeAndAbsurdSizes) {
  EXPECT_THAT(message_of([] { Shape{2, -1}; }), HasSubstr("[2, -1]"));
  const std::int64_t huge = std::int64_t{1} << 31;
  EXPECT_THAT(message_of([=] { Shape{huge, huge}; }), HasSubstr("too large at axis 1"));
  EXPECT_THROW((Shape{std::numeric_limits<std::int64_t>::max(), 3}), Error);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1}), Error) << "seven axes";
  EXPECT_THROW((Shape{0, std::numeric_limits<std::int64_t>::max()}), Error)
      << "too large once the outer axis is not empty";
}

TEST(Shape, WithOuterChangesTheFirstAxisOnly) {
  EXPECT_EQ((Shape{2, 3}).with_outer(7), (Shape{7, 3}));
  EXPECT_THROW((Shape{2, 3}).with_outer(-1), Error);
  EXPECT_THROW(Shape{}.with_outer(1), Error);
}

TEST(Tensor, IsUndefinedWhenDefaultMade) {
  EXPECT_FALSE(Tensor().defined());
  EXPECT_TRUE(Tensor::empty({}, DType::f32, Device::cpu()).defined());
  EXPECT_EQ(Tensor().raw(), nullptr);
}

TEST(Tensor, CannotBeReadWhileUndefined) {
  EXPECT_THAT(message_of([] { Tensor().data<float>(); }), HasSubstr("undefined tensor"));
  EXPECT_THROW(Tensor().elements<float>(), Error);
  EXPECT_FALSE(Tensor().clone().defined());
}

TEST(Tensor, InTheMemoryOfADeviceIsNotReadByTheCpu) {
  static constexpr Backend gpu{.name = "gpu"}, of_a_test{.name = "test", .in_cpu_memory = true};
  float value = 3;
  const auto on = [&value](const Backend& backend) {
    return Tensor::view(Storage::wrap(&value, sizeof value, {&backend, 1}, nullptr), 0, {1},
                        DType::f32);
  };
  const Tensor tensor = on(gpu);
  EXPECT_EQ(tensor.data<float>(), &value) << "for kernels of the device";
  EXPECT_THAT(message_of([&] { tensor.elements<float>(); }),
              HasSubstr("the CPU cannot read a tensor of gpu:1"));
  EXPECT_THAT(message_of([&] { tensor.clone(); }), HasSubstr("gpu:1"));
  EXPECT_THAT(on(of_a_test).elements<float>(), ElementsAre(3));
}

TEST(Tensor, CopiesOfAHandleShareTheData) {
  const Tensor a = Tensor::zeros({3});
  const Tensor b = a;  // NOLINT(performance-unnecessary-copy-initialization): what is tested
  b.data<float>()[1] = 5;
  EXPECT_THAT(a.elements<float>(), ElementsAre(0, 5, 0));
}

TEST(Tensor, CloneCopiesTheDataAndKeepsTheLayout) {
  const Tensor a = Tensor::zeros({1, 2, 2, 2}, DType::f32, Layout::nhwc);
  const Tensor b = a.clone();
  b.data<float>()[0] = 5;
  EXPECT_EQ(a.data<float>()[0], 0);
  EXPECT_EQ(b.layout(), Layout::nhwc);
  EXPECT_EQ(b.shape(), a.shape());
}

TEST(Tensor, CloneOfAViewCopiesTheViewOnly) {
  const Tensor clone = counting({4, 2}).narrow(1, 2).clone();
  EXPECT_THAT(clone.elements<float>(), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(clone.storage()->bytes(), 16u);
}

TEST(Tensor, NarrowSharesRowsOfTheOutermostAxis) {
  const Tensor all = counting({4, 3});
  const Tensor rows = all.narrow(1, 2);
  EXPECT_EQ(rows.shape(), (Shape{2, 3}));
  EXPECT_THAT(rows.elements<float>(), ElementsAre(3, 4, 5, 6, 7, 8));
  rows.data<float>()[0] = 100;
  EXPECT_EQ(all.data<float>()[3], 100);
  EXPECT_THAT(rows.narrow(1, 1).elements<float>(), ElementsAre(6, 7, 8));
  EXPECT_EQ(all.narrow(4, 0).element_count(), 0);
}

TEST(Tensor, NarrowRefusesRowsThatAreNotThere) {
  const Tensor tensor = Tensor::zeros({4, 3});
  EXPECT_THAT(message_of([&] { tensor.narrow(3, 2); }), HasSubstr("2 rows from 3 on, of [4, 3]"));
  EXPECT_THROW(tensor.narrow(-1, 2), Error);
  EXPECT_THROW(tensor.narrow(0, -1), Error);
  EXPECT_THROW(tensor.narrow(1, std::numeric_limits<std::int64_t>::max()), Error);
  EXPECT_THROW(Tensor::zeros({}).narrow(0, 1), Error);
}

TEST(Tensor, ReshapeSharesTheElementsUnderAnotherShape) {
  const Tensor flat = counting({6});
  const Tensor square = flat.reshape({2, 3});
  square.data<float>()[5] = -1;
  EXPECT_EQ(flat.data<float>()[5], -1);
  EXPECT_EQ(square.shape(), (Shape{2, 3}));
}

TEST(Tensor, ReshapeNamesBothCountsOrTheLayout) {
  EXPECT_THAT(message_of([] {
                Tensor::zeros({2, 3}).reshape({4});
              }),
              HasSubstr("6 elements of [2, 3] (row_major) into 4 of [4]"));
  const Tensor image = Tensor::zeros({1, 2, 2, 2}, DType::f32, Layout::nhwc);
  EXPECT_THAT(message_of([&] { image.reshape({8}); }), HasSubstr("nhwc"));
}

TEST(Tensor, RefusesToBeReadAsAnotherType) {
  const Tensor tensor = Tensor::zeros({2}, DType::f64);
  EXPECT_THAT(message_of([&] { tensor.data<float>(); }),
              HasSubstr("a tensor of f64 was read as f32"));
  EXPECT_THROW(tensor.elements<std::int64_t>(), Error);
  EXPECT_NO_THROW(tensor.data<double>());
}

TEST(Tensor, FromNamesBothCountsWhenTheyDiffer) {
  const std::vector<float> values{1, 2, 3};
  EXPECT_THAT(Tensor::from<float>({3, 1}, values).elements<float>(), ElementsAre(1, 2, 3));
  EXPECT_THAT(message_of([&] { Tensor::from<float>({2, 2}, values); }), HasSubstr("4"));
  EXPECT_THAT(message_of([&] { Tensor::from<float>({2, 2}, values); }), HasSubstr("3"));
}

TEST(Tensor, LayoutsOfImagesNeedImages) {
  EXPECT_THROW(Tensor::empty({2, 16}, DType::f32, Device::cpu(), Layout::nhwc), Error);
  EXPECT_THROW(Tensor::empty({2, 16}, DType::f32, Device::cpu(), Layout::nchw16c), Error);
  EXPECT_THAT(message_of([] {
                Tensor::empty({1, 17, 2, 2}, DType::f32, Device::cpu(), Layout::nchw16c);
              }),
              HasSubstr("17"));
  EXPECT_NO_THROW(Tensor::empty({1, 32, 2, 2}, DType::f32, Device::cpu(), Layout::nchw16c));
}

TEST(Tensor, ViewsLookAtTheirPartOfAStorage) {
  const Tensor all = counting({8});
  const Tensor part = Tensor::view(all.storage(), 8, {2, 2}, DType::f32);
  EXPECT_THAT(part.elements<float>(), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(message_of([&] {
                Tensor::view(all.storage(), 20, {2, 2}, DType::f32);
              }),
              HasSubstr("at byte 20 needs 16 bytes, the storage has 32"));
  EXPECT_THROW(Tensor::view(all.storage(), 100, {0}, DType::f32), Error);
  EXPECT_THROW(Tensor::view(all.storage(), std::size_t(-8), {2}, DType::f32), Error);
}

TEST(Tensor, ViewsNeedAStorageAndAnAlignedOffset) {
  const Tensor all = counting({8});
  EXPECT_THROW(Tensor::view(nullptr, 0, {1}, DType::f32), Error);
  EXPECT_THAT(message_of([&] { Tensor::view(all.storage(), 2, {1}, DType::f32); }),
              HasSubstr("byte 2"));
  EXPECT_NO_THROW(Tensor::view(all.storage(), 2, {1}, DType::bf16));
}

TEST(Tensor, KeepsTheOwnerOfWrappedMemoryAlive) {
  auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
  const std::weak_ptr<std::vector<float>> watch = owner;
  float* data = owner->data();
  Tensor tensor = Tensor::view(Storage::wrap(data, 12, {}, owner), 0, {3}, DType::f32);
  owner.reset();
  EXPECT_FALSE(watch.expired());
  EXPECT_THAT(tensor.elements<float>(), ElementsAre(1, 2, 3));
  tensor = {};
  EXPECT_TRUE(watch.expired());
}

TEST(Tensor, GivesItsMemoryBackWithTheLastHandle) {
  const std::size_t before = CachingAllocator::of({}).counters().in_use_bytes;
  {
    const Tensor tensor = Tensor::zeros({1000});
    const Tensor view = tensor.narrow(10, 10);
    EXPECT_GT(CachingAllocator::of({}).counters().in_use_bytes, before);
  }
  EXPECT_EQ(CachingAllocator::of({}).counters().in_use_bytes, before);
}

TEST(Tensor, TellsItsBytesForEveryType) {
  EXPECT_EQ(Tensor::empty({3}, DType::f64, Device::cpu()).bytes(), 24u);
  EXPECT_EQ(Tensor::empty({3}, DType::bf16, Device::cpu()).bytes(), 6u);
  EXPECT_EQ(Tensor::empty({3}, DType::boolean, Device::cpu()).bytes(), 3u);
  EXPECT_EQ(Tensor::empty({0}, DType::f64, Device::cpu()).bytes(), 0u);
}

TEST(Tensor, RefusesMoreMemoryThanThereIs) {
  EXPECT_THROW(Tensor::empty({std::int64_t{1} << 56}, DType::f64, Device::cpu()), Error);
}

TEST(TensorText, NestsTheElementsByTheirAxes) {
  EXPECT_EQ(to_string(counting({2, 3})), "[[0, 1, 2], [3, 4, 5]] f32 [2, 3]");
  EXPECT_EQ(to_string(counting({})), "0 f32 []");
  EXPECT_EQ(to_string(counting({2, 0})), "f32 [2, 0]");
  EXPECT_EQ(to_string(Tensor()), "an undefined tensor");
  const std::int64_t whole[] = {-7, std::numeric_limits<std::int64_t>::max()};
  EXPECT_EQ(to_string(Tensor::from<std::int64_t>({2}, whole)), "[-7, 9223372036854775807] i64 [2]");
  const std::uint8_t bytes[] = {0, 255};
  EXPECT_EQ(to_string(Tensor::from<std::uint8_t>({2, 1}, bytes)), "[[0], [255]] u8 [2, 1]");
  const float odd[] = {1.5F, std::numeric_limits<float>::quiet_NaN(), 1e30F};
  EXPECT_EQ(to_string(Tensor::from<float>({3}, odd)), "[1.5, nan, 1e+30] f32 [3]");
  EXPECT_EQ(to_string(cast(Tensor::from<float>({1}, {odd, 1}), DType::bf16)), "[1.5] bf16 [1]");
}

TEST(TensorText, ShowsBothEndsOfLongAxes) {
  const std::string text = to_string(counting({2, 501}));
  EXPECT_EQ(text,
            "[[0, 1, 2, …, 498, 499, 500], [501, 502, 503, …, 999, 1000, 1001]] f32 [2, 501]");
  EXPECT_THAT(to_string(counting({1000})), testing::Not(HasSubstr("…")));
}

TEST(TensorText, IsTheSameForEachLayout) {
  const Shape shape{1, 32, 2, 3};
  const Tensor plain = counting(shape);
  for (const Layout layout : {Layout::nhwc, Layout::nchw16c}) {
    Tensor other = Tensor::empty(shape, DType::f32, Device::cpu(), layout);
    const std::int64_t block = layout == Layout::nhwc ? 32 : 16;
    std::size_t place = 0;  // as runtime/tensor/layout.h describes them
    for (std::int64_t outer = 0; outer < 32 / block; ++outer)
      for (std::int64_t pixel = 0; pixel < 6; ++pixel)
        for (std::int64_t inner = 0; inner < block; ++inner)
          other.data<float>()[place++] = static_cast<float>((outer * block + inner) * 6 + pixel);
    EXPECT_EQ(to_string(other), to_string(plain)) << name_of(layout);
  }
}

}  // namespace
}  // namespace troupe
