#include "workspace/tar_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "workspace/tar_numbers.h"

namespace cella::workspace {
namespace {

constexpr uint64_t kMaxOctal = (uint64_t{1} << 33) - 1;  // eleven digits

// "LENGTH KEY=VALUE\n": the length counts its own digits.
std::string PaxRecord(std::string_view key, std::string_view value) {
  size_t rest = key.size() + value.size() + 3;
  size_t length = rest + 1;
  while (fmt::formatted_size("{}", length) + rest != length) length = fmt::formatted_size("{}", length) + rest;
  return fmt::format("{} {}={}\n", length, key, value);
}

}  // namespace

void TarWriter::Block(const std::string& path, uint64_t size, int64_t modified_s, char type, bool executable) {
  TarHeader header{};
  path.copy(header.name, sizeof header.name);
  (void)WriteTarNumber(header.mode, executable ? 0755 : 0644);
  (void)WriteTarNumber(header.uid, 0);
  (void)WriteTarNumber(header.gid, 0);
  (void)WriteTarNumber(header.size, size);
  (void)WriteTarNumber(header.mtime, static_cast<uint64_t>(modified_s));
  header.type = type;
  std::memcpy(header.magic, "ustar", sizeof header.magic);
  std::memset(header.version, '0', sizeof header.version);
  std::array<char, kTarBlock> block;
  std::memcpy(block.data(), &header, sizeof header);
  // Six digits, NUL, space: as all programs have written it.
  (void)WriteTarNumber(std::span(block).subspan(offsetof(TarHeader, checksum), 7), TarChecksum(block));
  block[offsetof(TarHeader, checksum) + 7] = ' ';
  out_.append(block.data(), block.size());
}

void TarWriter::Header(const TarFile& file, char type) {
  std::string records;
  bool plain = std::ranges::all_of(file.path, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (!plain || file.path.size() > sizeof(TarHeader::name)) records += PaxRecord("path", file.path);
  if (file.size > kMaxOctal) records += PaxRecord("size", std::to_string(file.size));
  bool time_fits = file.modified_s >= 0 && static_cast<uint64_t>(file.modified_s) <= kMaxOctal;
  if (!time_fits) records += PaxRecord("mtime", std::to_string(file.modified_s));
  if (!records.empty()) {
    Block("PaxHeaders/entry", records.size(), 0, 'x', false);
    out_ += records;
    out_.append(TarPadding(records.size()), '\0');
  }
  Block(file.path, file.size > kMaxOctal ? 0 : file.size, time_fits ? file.modified_s : 0, type, file.executable);
}

void TarWriter::AddDirectory(const std::string& path, int64_t modified_s) {
  Header({.path = path + "/", .modified_s = modified_s, .executable = true}, '5');
}

void TarWriter::BeginFile(const TarFile& file) {
  Header(file, '0');
  wanted_ = file.size;
  padding_ = TarPadding(file.size);
}

void TarWriter::Advance(uint64_t content) {
  wanted_ -= content;
  if (wanted_ == 0) out_.append(std::exchange(padding_, 0), '\0');
}

void TarWriter::Write(std::string_view content) {
  content = content.substr(0, static_cast<size_t>(std::min<uint64_t>(content.size(), wanted_)));
  out_ += content;
  Advance(content.size());
}

void TarWriter::Fill(size_t at_most) {
  auto zeros = static_cast<size_t>(std::min<uint64_t>(at_most, wanted_));
  out_.append(zeros, '\0');
  Advance(zeros);
}

void TarWriter::Finish() { out_.append(2 * kTarBlock, '\0'); }

}  // namespace cella::workspace
