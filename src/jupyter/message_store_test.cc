#include "jupyter/message_store.h"

#include <gtest/gtest.h>

namespace cella::jupyter {
namespace {

zmtp::Message Numbered(int number, size_t size = 100) {
  return {.parts = {std::to_string(number), std::string(size, 'x')}, .skipped = static_cast<uint64_t>(number)};
}

TEST(MessageStoreTest, KeepsOrderThroughMemoryAndFile) {
  MessageStore store("/tmp", {.memory = 1000, .messages = 100, .file = 1 << 20});
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 50; ++i) store.Push(Numbered(round * 100 + i));
    EXPECT_LE(store.memory_bytes(), 1000U);
    EXPECT_GT(store.file_bytes(), 0U);
    for (int i = 0; i < 25; ++i) EXPECT_EQ(store.Take()->parts[0], std::to_string(round * 100 + i));
    for (int i = 50; i < 100; ++i) store.Push(Numbered(round * 100 + i));
    for (int i = 25; i < 100; ++i) {
      auto message = store.Take();
      ASSERT_TRUE(message.has_value());
      EXPECT_EQ(message->parts[0], std::to_string(round * 100 + i));
      EXPECT_EQ(message->parts[1].size(), 100U);
      EXPECT_EQ(message->skipped, static_cast<uint64_t>(round * 100 + i));
    }
    EXPECT_TRUE(store.empty());
    EXPECT_EQ(store.file_bytes(), 0U);
  }
  EXPECT_EQ(store.TakeDropped(), 0U);
}

TEST(MessageStoreTest, DropsAndCountsBeyondTheFile) {
  MessageStore store("/tmp", {.memory = 1000, .messages = 100, .file = 2000});
  for (int i = 0; i < 100; ++i) store.Push(Numbered(i));
  int taken = 0;
  while (store.Take()) ++taken;
  EXPECT_GT(taken, 10);
  EXPECT_EQ(static_cast<uint64_t>(taken) + store.TakeDropped(), 100U);
  store.Push(Numbered(7));
  EXPECT_EQ(store.Take()->parts[0], "7");
}

TEST(MessageStoreTest, DropsWhereNoFileCanBeMade) {
  MessageStore store("/nonexistent", {.memory = 500, .messages = 100, .file = 1 << 20});
  for (int i = 0; i < 10; ++i) store.Push(Numbered(i));
  int taken = 0;
  while (store.Take()) ++taken;
  EXPECT_LT(taken, 10);
  EXPECT_EQ(static_cast<uint64_t>(taken) + store.TakeDropped(), 10U);
}

TEST(MessageStoreTest, KeepsOneMessageOfAnySize) {
  MessageStore store("/tmp", {.memory = 10, .messages = 1, .file = 10});
  store.Push(Numbered(1, 5000));
  store.Push(Numbered(2, 5000));
  EXPECT_EQ(store.Take()->parts[0], "1");
  EXPECT_FALSE(store.Take().has_value());
  EXPECT_EQ(store.TakeDropped(), 1U);
}

}  // namespace
}  // namespace cella::jupyter
