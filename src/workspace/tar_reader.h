// Reads a tar archive from bytes that arrive piece by piece: ustar, pax (path, size, mtime), GNU long names, and the
// old format before all of them. Files and directories only; whatever else is in it is refused by name. The archive is
// the client's and hostile: everything is bounded before it is stored. No I/O in here: give bytes with Feed, then take
// events with Next until it wants more. Memory: the extended headers of one entry.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "workspace/client_path.h"
#include "workspace/tar_format.h"

namespace cella::workspace {

enum class TarLinks { kRefuse, kSkip };

struct TarLimits {
  uint64_t entries = 100'000;
  uint64_t total_bytes = uint64_t{1} << 30;  // of content
  PathBounds path;
  size_t header_bytes = size_t{256} << 10;  // of the extended headers of one entry
  TarLinks links = TarLinks::kRefuse;
};

struct TarWantsMore {};  // all that was fed is used up
struct TarDirectory {
  std::string path;
};
struct TarContent {
  std::string_view bytes;  // of the file that came last; valid until the next call of Feed
};
struct TarFileEnd {};
struct TarSkipped {
  std::string path;
  std::string_view what;  // "symbolic link"
};
struct TarEnd {};  // the archive has ended; what follows may only be filling

using TarEvent = std::variant<TarWantsMore, TarFile, TarDirectory, TarContent, TarFileEnd, TarSkipped, TarEnd>;

class TarReader {
 public:
  explicit TarReader(TarLimits limits) : limits_(limits) {}

  // Borrows the bytes until Next has given TarWantsMore.
  void Feed(std::string_view bytes) { input_ = bytes; }
  // An error is final, and repeated.
  Result<TarEvent> Next();
  // After the last byte: was that a whole archive?
  Status Finish();

 private:
  enum class State { kHeader, kExtended, kIgnored, kContent, kPadding, kEnded };
  // What extended headers say about the entry that follows them.
  struct Extended {
    std::optional<std::string> path;
    std::optional<uint64_t> size;
    std::optional<int64_t> modified_s;
  };

  std::string_view Take(uint64_t at_most);
  Result<TarEvent> Step();
  Result<std::optional<TarEvent>> ReadHeader();
  Result<std::optional<TarEvent>> StartEntry(const TarHeader& header, uint64_t size);
  Status StartExtended(char type, uint64_t size);
  Status FinishExtended();
  Status ReadPax(std::string_view records);
  Status ReadPaxRecord(std::string_view key, std::string_view value);
  std::string EntryName(const TarHeader& header) const;

  TarLimits limits_;
  std::string_view input_;
  State state_ = State::kHeader;
  std::array<char, kTarBlock> block_{};
  size_t block_filled_ = 0;
  uint64_t left_ = 0;     // of the content that is being read
  uint64_t padding_ = 0;  // behind it
  bool in_file_ = false;
  char extended_type_ = 0;
  std::string extended_bytes_;
  int extended_count_ = 0;  // headers since the last entry
  Extended extended_;
  uint64_t entries_ = 0;
  uint64_t total_bytes_ = 0;
  uint64_t offset_ = 0;    // of the input, for messages
  uint64_t trailing_ = 0;  // bytes behind the end
  std::optional<Error> failure_;
};

}  // namespace cella::workspace
