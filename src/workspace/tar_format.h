// What tar archives are made of (POSIX.1 "ustar", and GNU's variant of it): shared by the reader and the writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace cella::workspace {

inline constexpr size_t kTarBlock = 512;

struct TarHeader {
  char name[100];
  char mode[8];
  char uid[8];
  char gid[8];
  char size[12];
  char mtime[12];
  char checksum[8];
  char type;
  char link_name[100];
  char magic[6];
  char version[2];
  char user_name[32];
  char group_name[32];
  char device_major[8];
  char device_minor[8];
  char prefix[155];  // GNU's archives keep other things here
  char unused[12];
};
static_assert(sizeof(TarHeader) == kTarBlock);

struct TarFile {
  std::string path;  // relative; from the reader: passes CheckClientPath
  uint64_t size = 0;
  int64_t modified_s = 0;
  bool executable = false;
};

// Bytes of filling behind content of this size, up to the next block.
inline uint64_t TarPadding(uint64_t size) { return (kTarBlock - size % kTarBlock) % kTarBlock; }

// The sum of all bytes, with the checksum's own taken for spaces.
inline uint32_t TarChecksum(std::span<const char, kTarBlock> block) {
  constexpr size_t kBegin = offsetof(TarHeader, checksum), kEnd = kBegin + sizeof(TarHeader::checksum);
  uint32_t sum = 0;
  for (size_t i = 0; i < block.size(); ++i) sum += i >= kBegin && i < kEnd ? ' ' : static_cast<uint8_t>(block[i]);
  return sum;
}

}  // namespace cella::workspace
