#include <gmock/gmock.h>

#include <thread>

#include "memory_store.h"

namespace troupe {
namespace {

using namespace std::chrono_literals;

TEST(MemoryStore, GivesBackWhatWasPut) {
  MemoryStore store;
  ASSERT_TRUE(store.put("address", std::string("a\0b", 3)));
  EXPECT_EQ(store.get("address", 0ms).value(), std::string("a\0b", 3));
}

TEST(MemoryStore, TheLaterValueOfAKeyCounts) {
  MemoryStore store;
  ASSERT_TRUE(store.put("key", "old"));
  ASSERT_TRUE(store.put("key", "new"));
  EXPECT_EQ(store.get("key", 0ms).value(), "new");
}

TEST(MemoryStore, AGetWaitsForThePut) {
  MemoryStore store;
  std::jthread late([&] {
    std::this_thread::sleep_for(20ms);
    (void)store.put("key", "value");
  });
  EXPECT_EQ(store.get("key", 60s).value(), "value");
}

TEST(MemoryStore, NamesTheKeyThatNobodyPut) {
  MemoryStore store;
  const auto got = store.get("nobody/cares", 1ms);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), ErrorCode::timed_out);
  EXPECT_THAT(got.error().what(), testing::HasSubstr("nobody/cares"));
}

TEST(MemoryStore, GivesAClaimToOneAndWhatItPutsToTheOthers) {
  MemoryStore store;
  EXPECT_EQ(store.claim("key", 0ms).value(), "");
  EXPECT_EQ(store.claim("key", 0ms).value(), "");
  std::thread([&] {
    EXPECT_EQ(store.claim("key", 1ms).error().code(), ErrorCode::timed_out);
  }).join();
  const std::jthread late([&] { EXPECT_EQ(store.claim("key", 60s).value(), "value"); });
  ASSERT_TRUE(store.put("key", "value"));
  EXPECT_EQ(store.claim("key", 0ms).value(), "value");
}

}  // namespace
}  // namespace troupe
