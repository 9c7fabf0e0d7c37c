#include "registry/output_spill.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "os/test_directory.h"
#include "registry/test_full_disk.h"

namespace cella::registry {
namespace {

using os::TempDirectory;

// Bytes that tell where they are.
std::string Pattern(size_t from, size_t count) {
  std::string bytes;
  for (size_t i = from; i < from + count; ++i) bytes += static_cast<char>('a' + i * 7 % 26);
  return bytes;
}

std::string ReadAll(const OutputSpill& spill, size_t page) {
  std::string all;
  for (;;) {
    std::string next = spill.Read(all.size(), page).value();
    EXPECT_LE(next.size(), page);
    if (next.empty()) return all;
    all += next;
  }
}

TEST(OutputSpillTest, ReadsByOffsetDuringAndAfterWriting) {
  TempDirectory temp;
  OutputSpill spill(temp.path("stdout"));
  size_t written = 0;
  for (size_t piece : {1u, 100u, 16'000u, 500u, 200'000u, 3u}) {
    spill.Append(Pattern(written, piece));
    written += piece;
    ASSERT_EQ(ReadAll(spill, 70'000), Pattern(0, written));
  }
  EXPECT_EQ(spill.Read(written - 2, 100).value(), Pattern(written - 2, 2));
  spill.Settle();
  EXPECT_EQ(spill.memory_used(), std::string().capacity());
  EXPECT_EQ(ReadAll(spill, 70'000), Pattern(0, written));
  EXPECT_EQ(std::filesystem::file_size(temp.path("stdout")), written);
  EXPECT_EQ(spill.Read(written, 10).value(), "");
  EXPECT_EQ(spill.Read(written + 1, 10).error().code, ErrorCode::kInvalid);
  spill.Discard();
  EXPECT_TRUE(std::filesystem::is_empty(temp.path()));
}

TEST(OutputSpillTest, ShortOutputTouchesNoFileUntilItSettles) {
  TempDirectory temp;
  OutputSpill spill(temp.path("stdout"));
  spill.Append("short");
  EXPECT_TRUE(std::filesystem::is_empty(temp.path()));
  EXPECT_EQ(ReadAll(spill, 10), "short");
}

TEST(OutputSpillTest, KeepsTheBeginningAndCountsTheRest) {
  TempDirectory temp;
  OutputSpill spill(temp.path("stdout"), 50'000);
  for (size_t i = 0; i < 100; ++i) spill.Append(Pattern(i * 1000, 1000));
  spill.Settle();
  EXPECT_EQ(spill.total(), 100'000u);
  EXPECT_EQ(spill.kept(), 50'000u);
  EXPECT_EQ(ReadAll(spill, 4096), Pattern(0, 50'000));
  EXPECT_EQ(spill.Read(60'000, 10).value(), "");
}

TEST(OutputSpillTest, FullDiskKeepsWhatWasWritten) {
  TempDirectory temp;
  OutputSpill spill(temp.path("stdout"));
  {
    FullDisk full(60'000);
    for (size_t i = 0; i < 100; ++i) spill.Append(Pattern(i * 1000, 1000));
  }
  // There is room again, but what was lost in between is not to be glued over.
  spill.Append(Pattern(100'000, 50'000));
  spill.Settle();
  EXPECT_EQ(spill.total(), 150'000u);
  EXPECT_LT(spill.kept(), 100'000u);
  EXPECT_GE(spill.kept(), 48'000u);
  EXPECT_EQ(ReadAll(spill, 4096), Pattern(0, spill.kept()));
}

}  // namespace
}  // namespace cella::registry
