#include "workspace/tar_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "os/io.h"
#include "workspace/tar_numbers.h"
#include "workspace/test_tar_drive.h"

namespace cella::workspace {
namespace {

using testing::HasSubstr;

// A header block, and content behind it, as any program could have written them.
std::string Entry(const std::string& name, char type, const std::string& content = "",
                  std::optional<uint64_t> size = std::nullopt) {
  TarHeader header{};
  name.copy(header.name, sizeof header.name);
  (void)WriteTarNumber(header.mode, 0644);
  (void)WriteTarNumber(header.size, size.value_or(content.size()));
  (void)WriteTarNumber(header.mtime, 7);
  header.type = type;
  std::memcpy(header.magic, "ustar", 6);
  std::array<char, kTarBlock> block;
  std::memcpy(block.data(), &header, sizeof header);
  (void)WriteTarNumber(std::span(block).subspan(offsetof(TarHeader, checksum), 7), TarChecksum(block));
  return std::string(block.data(), block.size()) + content + std::string(TarPadding(content.size()), '\0');
}

std::string Pax(const std::string& records, char type = 'x') { return Entry("pax", type, records); }

const std::string kEnd(1024, '\0');

TarDrive Read(const std::string& archive, TarLimits limits = {}) { return DriveTar(archive, 333, limits); }

std::string ErrorOf(const std::string& archive, TarLimits limits = {}) { return Read(archive, limits).error; }

TEST(TarReaderTest, ReadsFilesAndDirectories) {
  TarDrive read =
      Read(Entry("./", '5') + Entry("./d/", '5') + Entry("./d/f", '0', "content") + Entry("e", '\0') + kEnd);
  EXPECT_EQ(read.error, "");
  ASSERT_EQ(read.items.size(), 3u);
  EXPECT_EQ(read.items[0].path, "d");
  EXPECT_EQ(read.items[1], (TarDrive::Item{"d/f", "content", 'f', 7, false, true}));
  EXPECT_EQ(read.items[2].path, "e");
}

// "LENGTH KEY=VALUE\n"; for values so short that the length has one digit or two.
std::string Record(const std::string& text) {
  return std::to_string(text.size() + (text.size() < 7 ? 3 : 4)) + " " + text + "\n";
}

TEST(TarReaderTest, PaxHeadersApplyToTheNextEntryAndGlobalOnesDoNot) {
  TarDrive read =
      Read(Pax(Record("path=no"), 'g') +
           Pax(Record("path=a/long/name") + Record("mtime=-9.5") + Record("size=0003") + Record("any=thing")) +
           Entry("short", '0', "abc", 0) + Entry("next", '0') + kEnd);
  EXPECT_EQ(read.error, "");
  ASSERT_EQ(read.items.size(), 2u);
  EXPECT_EQ(read.items[0], (TarDrive::Item{"a/long/name", "abc", 'f', -9, false, true}));
  EXPECT_EQ(read.items[1].path, "next");
  EXPECT_EQ(Read(Pax(Record("path=taken/back") + Record("path=")) + Entry("f", '0') + kEnd).items.at(0).path, "f");
}

TEST(TarReaderTest, RejectsMalformedPaxHeader) {
  for (const char* records :
       {"x", "5 a=", "99 path=a\n", "0 a=b\n", "-9 a=b\n", "12 path_is_a\n", "11 path=abcd", "7 =abc\n",
        "99999999999999999999 a=b\n", "15 size=-000001\n", "14 size=1.5000\n", "13 mtime=now\n"}) {
    EXPECT_NE(ErrorOf(Pax(records) + Entry("f", '0') + kEnd), "") << records;
  }
}

TEST(TarReaderTest, ReadsGnuLongNamesAndOldArchives) {
  std::string name(150, 'n');
  TarDrive read =
      Read(Entry("././@LongLink", 'K', "some/target") + Entry("././@LongLink", 'L', name + std::string(1, '\0')) +
           Entry(name.substr(0, 100), '0', "x") + kEnd);
  EXPECT_EQ(read.error, "");
  EXPECT_EQ(read.items.at(0).path, name);
  EXPECT_EQ(Read(Entry("old/", '\0') + kEnd).items.at(0).kind, 'd');
}

TEST(TarReaderTest, RejectsOtherEntryTypesByName) {
  for (char type : {'1', '2', '3', '4', '6', 'S', 'V', 'M', 'Z'}) {
    TarDrive read = Read(Entry("the/entry", type) + kEnd);
    EXPECT_THAT(read.error, HasSubstr("'the/entry' is a")) << type;
    EXPECT_EQ(read.code, ErrorCode::kInvalid);
  }
  EXPECT_THAT(ErrorOf(Pax("22 GNU.sparse.major=1\n") + Entry("f", '0') + kEnd), HasSubstr("sparse"));
}

TEST(TarReaderTest, SkipsOnlyLinksIfRequested) {
  TarLimits limits;
  limits.links = TarLinks::kSkip;
  TarDrive read = Read(Entry("a", '2') + Entry("b", '1') + Entry("f", '0', "x") + kEnd, limits);
  EXPECT_EQ(read.error, "");
  ASSERT_EQ(read.items.size(), 3u);
  EXPECT_EQ(read.items[0].kind, 's');
  EXPECT_EQ(read.items[2].content, "x");
  EXPECT_NE(ErrorOf(Entry("a", '6') + kEnd, limits), "");
}

TEST(TarReaderTest, RejectsUnsafeNames) {
  for (const char* name : {"/etc/passwd", "../x", "a/../../x", "a//b", "a/./b", "..", "a/..", "/"}) {
    EXPECT_NE(ErrorOf(Entry(name, '0', "x") + kEnd), "") << name;
    EXPECT_NE(ErrorOf(Entry(name, '5') + kEnd), "") << name;
  }
  EXPECT_NE(ErrorOf(Pax(std::string("12 path=a\0b\n", 12)) + Entry("f", '0') + kEnd), "");
  EXPECT_NE(ErrorOf(Entry("L", 'L', std::string(5000, 'a')) + Entry("f", '0') + kEnd), "") << "too long";
  std::string deep;
  for (int i = 0; i < 70; ++i) deep += "d/";
  EXPECT_THAT(ErrorOf(Entry("L", 'L', deep + "f") + Entry("f", '0') + kEnd), HasSubstr("deep"));
}

TEST(TarReaderTest, RejectsBombsEarly) {
  TarLimits limits;
  limits.entries = 3;
  limits.total_bytes = 100;
  limits.header_bytes = 1000;
  // Only the header is there: its announcement is enough.
  TarDrive large = DriveTar(Entry("f", '0', "", 101), 512, limits);
  EXPECT_EQ(large.code, ErrorCode::kExhausted);
  EXPECT_TRUE(large.items.empty());
  std::string sixty(60, 'x');
  EXPECT_THAT(ErrorOf(Entry("a", '0', sixty) + Entry("b", '0', sixty) + kEnd, limits), HasSubstr("bytes of content"));
  EXPECT_THAT(ErrorOf(Entry("a", '0') + Entry("b", '0') + Entry("c", '0') + Entry("d", '0') + kEnd, limits),
              HasSubstr("more than 3 entries"));
  EXPECT_THAT(ErrorOf(Entry("x", 'x', "", 1001), limits), HasSubstr("1001 bytes"));
  std::string headers;
  for (int i = 0; i < 20; ++i) headers += Pax("8 a=bcd\n", i % 2 == 0 ? 'g' : 'x');
  EXPECT_THAT(ErrorOf(headers + Entry("f", '0') + kEnd), HasSubstr("in a row"));
  EXPECT_THAT(ErrorOf(kEnd + std::string(2 << 20, '\0')), HasSubstr("behind the end"));
  EXPECT_THAT(ErrorOf(Entry("f", '0', "", UINT64_MAX >> 32) + kEnd), HasSubstr("bytes of content"));
}

TEST(TarReaderTest, RejectsTruncatedArchives) {
  std::string archive = Entry("d/", '5') + Pax("12 path=a/b\n") + Entry("f", '0', std::string(700, 'x')) + kEnd;
  ASSERT_EQ(ErrorOf(archive), "");
  for (size_t length = 0; length <= archive.size() - 1024; ++length) {
    EXPECT_NE(ErrorOf(archive.substr(0, length)), "") << length;
  }
  EXPECT_THAT(ErrorOf(archive.substr(0, 1800)), HasSubstr("truncated"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("empty"));
}

TEST(TarReaderTest, DamagedHeaderErrorHasItsOffset) {
  std::string archive = Entry("a", '0', "x") + Entry("b", '0') + kEnd;
  archive[1024 + 3] = 'Z';
  EXPECT_THAT(ErrorOf(archive), HasSubstr("checksum of the header at byte 1024"));
  EXPECT_THAT(ErrorOf(std::string("\x1f\x8b") + std::string(600, 'g')), HasSubstr("compressed"));
}

TEST(TarReaderTest, RejectsArchiveAfterTheEnd) {
  EXPECT_THAT(ErrorOf(Entry("a", '0') + kEnd + Entry("b", '0') + kEnd), HasSubstr("behind the end"));
  EXPECT_THAT(ErrorOf(Pax("8 a=bcd\n") + kEnd), HasSubstr("belongs to no entry"));
  EXPECT_THAT(ErrorOf(Entry("d/", '5', "content") + kEnd), HasSubstr("has content"));
}

TEST(TarNumberTest, ParsesOctalAndBinary) {
  EXPECT_EQ(ParseTarNumber(std::string_view("0000644\0", 8)), 0644);
  EXPECT_EQ(ParseTarNumber("  17 \0  "), 017);
  EXPECT_EQ(ParseTarNumber(std::string_view("\0\0\0\0", 4)), 0);
  EXPECT_EQ(ParseTarNumber("12x4"), std::nullopt);
  EXPECT_EQ(ParseTarNumber("-124"), std::nullopt);
  EXPECT_EQ(ParseTarNumber(std::string_view("\x80\0\0\0\0\0\0\x02\0\0\0\0", 12)), int64_t{1} << 33);
  EXPECT_EQ(ParseTarNumber("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfb"), -5);
  EXPECT_EQ(ParseTarNumber(std::string_view("\x80\x01\0\0\0\0\0\0\0\0\0\0", 12)), std::nullopt) << "too large";
  EXPECT_EQ(ParseTarNumber(std::string_view("\x80\0\0\0\xff\0\0\0\0\0\0\0", 12)), std::nullopt) << "no sign bit";
}

TEST(TarReaderTest, FuzzCorpusPasses) {
  size_t replayed = 0;
  for (const auto& file : std::filesystem::directory_iterator(CELLA_FUZZ_CORPUS "/tar_reader")) {
    std::string archive = os::ReadFile(file.path(), 1 << 20).value();
    EXPECT_EQ(TarViolation(archive), "") << file.path();
    ++replayed;
  }
  EXPECT_GT(replayed, 5u);
}

}  // namespace
}  // namespace cella::workspace
