// Any bytes as an archive: no crash, no bound exceeded, no bad name let through, the same reading however they are cut.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "workspace/tar_numbers.h"
#include "workspace/test_tar_drive.h"

namespace {

using namespace cella::session;

void Check(const std::string& archive) {
  std::string violation = TarViolation(archive);
  if (violation.empty()) return;
  (void)std::fprintf(stderr, "%s\n", violation.c_str());
  std::abort();
}

// Behind a bad checksum nothing is looked at, and random changes never make a good one.
std::string WithChecksums(std::string archive) {
  for (size_t at = 0; at + kTarBlock <= archive.size(); at += kTarBlock) {
    std::span<char, kTarBlock> block(archive.data() + at, kTarBlock);
    if (std::ranges::all_of(block, [](char c) { return c == '\0'; })) continue;
    (void)WriteTarNumber(block.subspan(offsetof(TarHeader, checksum), 7), TarChecksum(block));
  }
  return archive;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string archive(reinterpret_cast<const char*>(data), size);
  Check(archive);
  Check(WithChecksums(std::move(archive)));
  return 0;
}
