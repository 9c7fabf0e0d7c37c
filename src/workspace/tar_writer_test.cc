#include "workspace/tar_writer.h"

#include <gtest/gtest.h>

#include "workspace/test_tar_drive.h"

namespace cella::workspace {
namespace {

TarDrive ReadBack(TarWriter& writer) {
  writer.Finish();
  return DriveTar(writer.Take(), 1000, {});
}

TEST(TarWriterTest, OutputIsReadableByTheReader) {
  TarWriter writer;
  std::string long_path = std::string(90, 'd') + "/" + std::string(200, 'f');
  writer.AddDirectory("dir", 1000);
  writer.BeginFile({"dir/f", 5, 1'700'000'000, true});
  writer.Write("he");
  EXPECT_EQ(writer.wanted(), 3u);
  writer.Write("llo");
  writer.BeginFile({long_path, 0, -5, false});
  writer.BeginFile({"gr\xc3\xbc\xc3\x9f", 600, int64_t{1} << 40, false});
  writer.Write(std::string(600, 'x'));
  TarDrive read = ReadBack(writer);
  ASSERT_EQ(read.error, "");
  ASSERT_EQ(read.items.size(), 4u);
  EXPECT_EQ(read.items[0], (TarDrive::Item{"dir", "", 'd', 0, false, true}));
  EXPECT_EQ(read.items[1], (TarDrive::Item{"dir/f", "hello", 'f', 1'700'000'000, true, true}));
  EXPECT_EQ(read.items[2], (TarDrive::Item{long_path, "", 'f', -5, false, true}));
  EXPECT_EQ(read.items[3].path, "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(read.items[3].modified_s, int64_t{1} << 40);
}

TEST(TarWriterTest, GrowingFileIsCutAndShrinkingFileIsPadded) {
  TarWriter writer;
  writer.BeginFile({"grew", 3, 0, false});
  writer.Write("abcdef");
  EXPECT_EQ(writer.wanted(), 0u);
  writer.Write("more");
  writer.BeginFile({"shrank", 5, 0, false});
  writer.Write("ab");
  writer.Fill(2);
  EXPECT_EQ(writer.wanted(), 1u);
  writer.Fill(100);
  TarDrive read = ReadBack(writer);
  ASSERT_EQ(read.error, "");
  EXPECT_EQ(read.items[0].content, "abc");
  EXPECT_EQ(read.items[1].content, std::string("ab\0\0\0", 5));
}

TEST(TarWriterTest, SizeBeyondOctalDigitsIsWritten) {
  TarWriter writer;
  uint64_t size = uint64_t{9} << 30;
  writer.BeginFile({"large", size, 0, false});
  std::string header = writer.Take();
  TarLimits limits;
  limits.total_bytes = UINT64_MAX;
  TarReader reader(limits);
  reader.Feed(header);
  auto event = reader.Next();
  ASSERT_TRUE(event);
  EXPECT_EQ(std::get<TarFile>(*event).size, size);
}

}  // namespace
}  // namespace cella::workspace
