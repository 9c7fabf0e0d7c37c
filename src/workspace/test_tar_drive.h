// Drives a TarReader over an archive and checks what must hold for any bytes: for the unit tests and the fuzzer alike.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "workspace/tar_reader.h"
#include "workspace/tar_writer.h"

namespace cella::workspace {

struct TarDrive {
  struct Item {
    std::string path;
    std::string content;
    char kind = 'f';  // 'f'ile, 'd'irectory, 's'kipped
    int64_t modified_s = 0;
    bool executable = false;
    bool whole = false;  // its end came
    bool operator==(const Item&) const = default;
  };
  std::vector<Item> items;
  std::string error;      // what stopped it
  ErrorCode code{};       // with it
  std::string violation;  // of what the reader promises
};

inline TarDrive DriveTar(std::string_view archive, size_t piece, const TarLimits& limits) {
  TarDrive drive;
  TarReader reader(limits);
  uint64_t content = 0;
  std::optional<uint64_t> open_size;
  auto fail = [&](const Error& error) {
    drive.error = error.message;
    drive.code = error.code;
  };
  auto handle = [&](const TarEvent& event) {
    if (const auto* file = std::get_if<TarFile>(&event)) {
      if (open_size) drive.violation = "a file within a file";
      if (!CheckClientPath(file->path, limits.path)) drive.violation = "a bad path was let through";
      open_size = file->size;
      drive.items.push_back({file->path, "", 'f', file->modified_s, file->executable});
    } else if (const auto* directory = std::get_if<TarDirectory>(&event)) {
      if (!CheckClientPath(directory->path, limits.path)) drive.violation = "a bad path was let through";
      drive.items.push_back({directory->path, "", 'd', 0, false, true});
    } else if (const auto* bytes = std::get_if<TarContent>(&event)) {
      content += bytes->bytes.size();
      if (!open_size || bytes->bytes.empty()) drive.violation = "content of nothing";
      drive.items.back().content += bytes->bytes;
    } else if (std::holds_alternative<TarFileEnd>(event)) {
      if (!open_size || drive.items.back().content.size() != *open_size) drive.violation = "not the announced size";
      drive.items.back().whole = true;
      open_size.reset();
    } else if (const auto* skipped = std::get_if<TarSkipped>(&event)) {
      drive.items.push_back({skipped->path, "", 's', 0, false, true});
    }
    if (content > limits.total_bytes) drive.violation = "more content than allowed";
    if (drive.items.size() > limits.entries) drive.violation = "more entries than allowed";
  };
  while (!archive.empty() && drive.violation.empty()) {
    std::string_view part = archive.substr(0, piece);
    archive.remove_prefix(part.size());
    reader.Feed(part);
    for (;;) {
      auto event = reader.Next();
      if (!event) {
        fail(event.error());
        return drive;
      }
      if (std::holds_alternative<TarWantsMore>(*event)) break;
      handle(*event);
    }
  }
  if (auto finished = reader.Finish(); !finished) fail(finished.error());
  return drive;
}

// Empty when all is well: the same events however the bytes are cut, and what was read can be written and read again.
inline std::string TarViolation(std::string_view archive) {
  TarLimits limits;
  limits.entries = 200;
  limits.total_bytes = 1 << 20;
  limits.header_bytes = 8192;
  limits.links = TarLinks::kSkip;
  TarDrive whole = DriveTar(archive, archive.size() + 1, limits);
  if (!whole.violation.empty()) return whole.violation;
  for (size_t piece : {size_t{1}, size_t{511}, size_t{700}}) {
    TarDrive cut = DriveTar(archive, piece, limits);
    if (!cut.violation.empty()) return cut.violation;
    if (cut.items != whole.items || cut.error != whole.error) return "pieces read otherwise than the whole";
  }
  TarWriter writer;
  std::vector<TarDrive::Item> written;
  for (const TarDrive::Item& item : whole.items) {
    if (item.kind == 's' || !item.whole) continue;
    if (item.kind == 'd') {
      writer.AddDirectory(item.path, 0);
    } else {
      writer.BeginFile({item.path, item.content.size(), item.modified_s, item.executable});
      writer.Write(item.content);
    }
    written.push_back(item);
  }
  writer.Finish();
  limits.entries *= 2;  // pax headers count
  limits.header_bytes *= 2;
  TarDrive again = DriveTar(writer.Take(), 4096, limits);
  if (!again.violation.empty()) return again.violation;
  if (!again.error.empty()) return "what we wrote is not read: " + again.error;
  return again.items == written ? "" : "what we wrote reads otherwise";
}

}  // namespace cella::workspace
