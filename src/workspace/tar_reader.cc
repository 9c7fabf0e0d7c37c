#include "workspace/tar_reader.h"

#include <algorithm>
#include <cstring>

#include "workspace/tar_numbers.h"

namespace cella::workspace {
namespace {

// A long name, a long link name and a pax header are as many as any program writes before one entry.
constexpr int kMaxExtendedInARow = 8;
// Programs fill up to their record size: 10 kB, or what a tape wanted.
constexpr uint64_t kMaxTrailing = uint64_t{1} << 20;
constexpr std::string_view kPath = "path";

std::string_view Field(std::span<const char> field) {
  std::string_view whole(field.data(), field.size());
  return whole.substr(0, whole.find('\0'));
}

std::string_view KindOf(char type) {
  switch (type) {
    case '1': return "hard link";
    case '2': return "symbolic link";
    case '3': return "character device";
    case '4': return "block device";
    case '6': return "FIFO";
    case 'S': return "sparse file";
    case 'M': return "piece of a file from another volume";
    case 'V': return "volume label";
    case 'D': return "directory of an incremental backup";
    default: return "entry of an unknown type";
  }
}

template <typename... Args>
std::unexpected<Error> Refuse(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Err(code, "tar: {}", fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
std::unexpected<Error> Bad(fmt::format_string<Args...> format, Args&&... args) {
  return Refuse(ErrorCode::kInvalid, format, std::forward<Args>(args)...);
}
// More than is allowed, of what would be fine otherwise.
template <typename... Args>
std::unexpected<Error> TooMuch(fmt::format_string<Args...> format, Args&&... args) {
  return Refuse(ErrorCode::kExhausted, format, std::forward<Args>(args)...);
}

bool IsZero(std::string_view bytes) {
  return std::ranges::all_of(bytes, [](char c) { return c == '\0'; });
}

}  // namespace

std::string_view TarReader::Take(uint64_t at_most) {
  std::string_view taken = input_.substr(0, static_cast<size_t>(std::min<uint64_t>(at_most, input_.size())));
  input_.remove_prefix(taken.size());
  offset_ += taken.size();
  return taken;
}

Result<TarEvent> TarReader::Next() {
  if (failure_) return std::unexpected(*failure_);
  auto event = Step();
  if (!event) failure_ = event.error();
  return event;
}

Result<TarEvent> TarReader::Step() {
  for (;;) {
    switch (state_) {
      case State::kHeader: {
        TRY(std::optional<TarEvent> event, ReadHeader());
        if (event) return std::move(*event);
        if (state_ == State::kHeader && block_filled_ != 0) return TarWantsMore{};
        if (state_ == State::kHeader && input_.empty()) return TarWantsMore{};
        break;
      }
      case State::kExtended:
      case State::kIgnored:
      case State::kContent: {
        std::string_view bytes = Take(left_);
        left_ -= bytes.size();
        if (state_ == State::kExtended) extended_bytes_.append(bytes);
        if (state_ == State::kContent && !bytes.empty()) return TarContent{bytes};
        if (left_ > 0) return TarWantsMore{};
        if (state_ == State::kExtended) TRY_VOID(FinishExtended());
        state_ = State::kPadding;
        if (std::exchange(in_file_, false)) return TarFileEnd{};
        break;
      }
      case State::kPadding:
        padding_ -= Take(padding_).size();
        if (padding_ > 0) return TarWantsMore{};
        state_ = State::kHeader;
        break;
      case State::kEnded: {
        std::string_view bytes = Take(UINT64_MAX);
        trailing_ += bytes.size();
        // An archive behind the archive would be dropped without a word.
        if (!IsZero(bytes)) return Bad("there is more behind the end of the archive");
        if (trailing_ > kMaxTrailing) return TooMuch("more than {} bytes of filling behind the end", kMaxTrailing);
        return TarWantsMore{};
      }
    }
  }
}

Result<std::optional<TarEvent>> TarReader::ReadHeader() {
  std::string_view bytes = Take(kTarBlock - block_filled_);
  bytes.copy(block_.data() + block_filled_, bytes.size());
  block_filled_ += bytes.size();
  if (block_filled_ < kTarBlock) return std::nullopt;
  block_filled_ = 0;
  if (IsZero({block_.data(), block_.size()})) {
    if (extended_count_ > 0) return Bad("the archive ends with an extended header that belongs to no entry");
    state_ = State::kEnded;
    return TarEvent(TarEnd{});
  }
  TarHeader header;
  std::memcpy(&header, block_.data(), sizeof header);
  std::optional<int64_t> sum = ParseTarNumber({header.checksum, sizeof header.checksum});
  if (sum != TarChecksum(block_)) {
    return Bad("bad checksum of the header at byte {}: damaged, or not a tar archive (compressed ones are not taken)",
               offset_ - kTarBlock);
  }
  // Extended headers count: an archive of nothing else must end as well.
  if (++entries_ > limits_.entries) return TooMuch("more than {} entries", limits_.entries);
  std::optional<int64_t> size = ParseTarNumber({header.size, sizeof header.size});
  if (!size || *size < 0) return Bad("entry '{}' has a bad size", ShownName(EntryName(header)));
  auto length = static_cast<uint64_t>(*size);
  if (header.type == 'x' || header.type == 'g' || header.type == 'L' || header.type == 'K') {
    TRY_VOID(StartExtended(header.type, length));
    return std::nullopt;
  }
  return StartEntry(header, length);
}

Status TarReader::StartExtended(char type, uint64_t size) {
  // Global headers may stand anywhere, but not without end either.
  if (++extended_count_ > kMaxExtendedInARow)
    return TooMuch("more than {} extended headers in a row", kMaxExtendedInARow);
  if (size > limits_.header_bytes) {
    return TooMuch("an extended header of {} bytes; at most {} are taken", size, limits_.header_bytes);
  }
  extended_type_ = type;
  extended_bytes_.clear();
  left_ = size;
  padding_ = TarPadding(size);
  state_ = type == 'g' || type == 'K' ? State::kIgnored : State::kExtended;
  return {};
}

Status TarReader::FinishExtended() {
  if (extended_type_ == 'x') {
    TRY_VOID(ReadPax(extended_bytes_));
  } else if (!extended_.path) {  // a pax header has more to say than GNU's
    extended_.path = extended_bytes_.substr(0, extended_bytes_.find('\0'));
  }
  std::string().swap(extended_bytes_);  // assigning an empty one would keep the memory
  return {};
}

// "LENGTH KEY=VALUE\n", where the length is that of the whole record.
Status TarReader::ReadPax(std::string_view records) {
  while (!records.empty()) {
    size_t space = records.substr(0, 12).find(' ');
    std::optional<int64_t> length;
    if (space != std::string_view::npos) length = ParsePaxNumber(records.substr(0, space), PaxFraction::kRefuse);
    if (!length || *length <= static_cast<int64_t>(space) + 1 || static_cast<uint64_t>(*length) > records.size()) {
      return Bad("a record of a pax header has a bad length");
    }
    std::string_view record = records.substr(0, static_cast<size_t>(*length));
    records.remove_prefix(record.size());
    record.remove_prefix(space + 1);
    size_t equals = record.find('=');
    if (!record.ends_with('\n') || equals == std::string_view::npos || equals == 0) {
      return Bad("a record of a pax header is not KEY=VALUE");
    }
    record.remove_suffix(1);
    TRY_VOID(ReadPaxRecord(record.substr(0, equals), record.substr(equals + 1)));
  }
  return {};
}

Status TarReader::ReadPaxRecord(std::string_view key, std::string_view value) {
  if (key.starts_with("GNU.sparse.")) return Bad("it holds a sparse file; make it without --sparse");
  // An empty value takes back what came before it.
  if (key == kPath) {
    extended_.path = value.empty() ? std::nullopt : std::optional<std::string>(value);
  } else if (key == "size") {
    extended_.size.reset();
    if (value.empty()) return {};
    std::optional<int64_t> size = ParsePaxNumber(value, PaxFraction::kRefuse);
    if (!size || *size < 0) return Bad("a pax header has the bad size '{}'", ShownName(value));
    extended_.size = static_cast<uint64_t>(*size);
  } else if (key == "mtime") {
    extended_.modified_s.reset();
    if (value.empty()) return {};
    std::optional<int64_t> time = ParsePaxNumber(value, PaxFraction::kDrop);
    if (!time) return Bad("a pax header has the bad time '{}'", ShownName(value));
    extended_.modified_s = *time;
  }
  return {};
}

std::string TarReader::EntryName(const TarHeader& header) const {
  if (extended_.path) return *extended_.path;
  std::string name(Field(header.name));
  // GNU's own format has "ustar " here, and other things in the place of the prefix.
  bool posix = std::string_view(header.magic, sizeof header.magic) == std::string_view("ustar\0", 6);
  std::string_view prefix = posix ? Field(header.prefix) : std::string_view();
  return prefix.empty() ? name : fmt::format("{}/{}", prefix, name);
}

Result<std::optional<TarEvent>> TarReader::StartEntry(const TarHeader& header, uint64_t size) {
  std::string path = EntryName(header);
  if (extended_.size) size = *extended_.size;
  std::optional<int64_t> modified = extended_.modified_s;
  if (!modified) modified = ParseTarNumber({header.mtime, sizeof header.mtime});
  extended_ = {};
  extended_count_ = 0;

  char type = header.type;
  if (type == '\0' || type == '7') type = '0';
  // Before ustar a directory was a file whose name ended so.
  if (type == '0' && path.ends_with('/')) type = '5';
  std::string given = ShownName(path);
  // As `tar -C DIR .` writes them.
  while (path.starts_with("./")) path.erase(0, 2);
  if (type == '5') {
    while (path.ends_with('/')) path.pop_back();
  }
  bool top = type == '5' && !given.starts_with('/') && (path.empty() || path == ".");
  if (!top) {
    if (auto checked = CheckClientPath(path, limits_.path); !checked) return Bad("{}", checked.error().message);
  }
  if (type == '5') {
    // Some would read content here and some would not: then they would not agree about what is in the archive.
    if (size != 0) return Bad("directory '{}' has content", given);
    if (top) return std::nullopt;
    return TarEvent(TarDirectory{std::move(path)});
  }
  if (type != '0') {
    bool skip = limits_.links == TarLinks::kSkip && (type == '1' || type == '2') && size == 0;
    if (!skip) return Bad("'{}' is a {}; only files and directories are taken", given, KindOf(type));
    return TarEvent(TarSkipped{std::move(path), KindOf(type)});
  }
  if (!modified) return Bad("file '{}' has a bad time", given);
  std::optional<int64_t> mode = ParseTarNumber({header.mode, sizeof header.mode});
  if (!mode) return Bad("file '{}' has a bad mode", given);
  if (size > limits_.total_bytes - total_bytes_) {
    return TooMuch("more than {} bytes of content; '{}' has {}", limits_.total_bytes, given, size);
  }
  total_bytes_ += size;
  left_ = size;
  padding_ = TarPadding(size);
  in_file_ = true;
  state_ = State::kContent;
  return TarEvent(TarFile{std::move(path), size, *modified, (*mode & 0111) != 0});
}

Status TarReader::Finish() {
  if (failure_) return std::unexpected(*failure_);
  if (state_ == State::kEnded) return {};
  if (offset_ == 0) return Bad("the archive is empty; even one without files has an end mark");
  return Bad("the archive is truncated: it stops at byte {} without its end mark", offset_);
}

}  // namespace cella::workspace
