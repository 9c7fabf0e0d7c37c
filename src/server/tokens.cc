#include "server/tokens.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/scope_exit.h"
#include "base/unique_fd.h"
#include "os/io.h"
#include "policy/names.h"

namespace cella::server {
namespace {

constexpr size_t kMaxToken = 1024;
constexpr std::string_view kHashMark = "sha256:";
constexpr std::string_view kBlanks = " \t\r";

std::string_view Trim(std::string_view line) {
  size_t first = line.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(kBlanks) - first + 1);
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<Sha256Digest> ParseHex(std::string_view hex) {
  Sha256Digest digest;
  if (hex.size() != 2 * digest.size()) return std::nullopt;
  for (size_t i = 0; i < digest.size(); ++i) {
    int high = HexDigit(hex[2 * i]);
    int low = HexDigit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    digest[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return digest;
}

// What fits into a header without quoting.
bool IsToken(std::string_view text) {
  return !text.empty() && text.size() <= kMaxToken &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

Result<TokenSet::Entry> ParseLine(std::string_view line) {
  TokenSet::Entry entry{.client = "default", .digest = {}};
  size_t colon = line.find(':');
  if (colon != std::string_view::npos) {
    entry.client = line.substr(0, colon);
    line.remove_prefix(colon + 1);
    // "sha256:HEX" was meant as a hash without a name; as a name it would make the hash a valid token.
    if (entry.client == "sha256" || !policy::IsName(entry.client)) {
      return Err(ErrorCode::kInvalid, "what is before the ':' is not the name of a client");
    }
    if (line.starts_with(kHashMark)) {
      auto digest = ParseHex(line.substr(kHashMark.size()));
      if (!digest) return Err(ErrorCode::kInvalid, "what follows 'sha256:' is not 64 hexadecimal digits");
      entry.digest = *digest;
      entry.hashed = true;
      return entry;
    }
  }
  if (!IsToken(line)) {
    return Err(ErrorCode::kInvalid, "the token is empty, has blanks or strange characters, or is longer than {} bytes",
               kMaxToken);
  }
  entry.digest = Sha256(line);
  return entry;
}

}  // namespace

Result<TokenSet> TokenSet::Parse(std::string_view text, std::string_view origin) {
  TokenSet set;
  for (size_t number = 1; !text.empty(); ++number) {
    size_t end = text.find('\n');
    std::string_view line = Trim(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line[0] == '#') continue;
    auto entry = ParseLine(line);
    if (!entry) return std::unexpected(std::move(entry.error()).WithContext(fmt::format("{}:{}", origin, number)));
    for (const Entry& other : set.entries_) {
      if (other.client != entry->client && other.digest != entry->digest) continue;
      return Err(ErrorCode::kInvalid, "{}:{}: the {} of line {} is there again", origin, number,
                 other.client == entry->client ? "client" : "token", other.line);
    }
    entry->line = number;
    set.entries_.push_back(std::move(*entry));
  }
  return set;
}

Result<std::string> ReadTokenFile(const std::string& path) {
  // Judged by the descriptor: what is read is what was looked at. A FIFO must not hold us up.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return SysErr(errno, "open the token file '{}'", path);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return SysErr(errno, "stat the token file '{}'", path);
  if (!S_ISREG(info.st_mode)) return Err(ErrorCode::kInvalid, "the token file '{}' is not a regular file", path);
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return Err(ErrorCode::kPermission, "the token file '{}' belongs to another user (uid {}), who could change it",
               path, info.st_uid);
  }
  if ((info.st_mode & 0177) != 0) {
    return Err(ErrorCode::kPermission,
               "the token file '{}' has mode {:04o}, so that others may read it: chmod 600 '{}'", path,
               info.st_mode & 07777, path);
  }
  auto text = os::ReadFd(fd.get(), kMaxTokenFile);
  if (!text) return std::unexpected(std::move(text.error()).WithContext(fmt::format("the token file '{}'", path)));
  return text;
}

Result<TokenSet> TokenSet::Load(const std::string& path) {
  TRY(std::string text, ReadTokenFile(path));
  ScopeExit wipe([&] { ::explicit_bzero(text.data(), text.size()); });
  return Parse(text, path);
}

const std::string* TokenSet::Find(std::string_view token) const {
  if (token.size() > kMaxToken) return nullptr;
  const Sha256Digest presented = Sha256(token);
  // Every entry, every byte: neither the first difference nor the place of the match shows in the time.
  size_t found = 0;  // index + 1
  for (size_t i = 0; i < entries_.size(); ++i) {
    uint8_t difference = 0;
    for (size_t j = 0; j < presented.size(); ++j) difference |= presented[j] ^ entries_[i].digest[j];
    size_t equal = size_t{difference} - 1;                 // all bits only for 0
    equal = (equal >> (8 * sizeof(equal) - 1)) * (i + 1);  // no branch
    found |= equal;                                        // tokens are different, so at most one
  }
  return found == 0 ? nullptr : &entries_[found - 1].client;
}

Status Tokens::Reload() {
  if (path_.empty()) return {};
  TRY(set_, TokenSet::Load(path_));
  return {};
}

std::string_view BearerToken(std::string_view header) {
  constexpr std::string_view kScheme = "bearer";
  if (header.size() <= kScheme.size() || header[kScheme.size()] != ' ') return {};
  for (size_t i = 0; i < kScheme.size(); ++i) {
    if ((header[i] | 0x20) != kScheme[i]) return {};
  }
  std::string_view token = Trim(header.substr(kScheme.size()));
  return IsToken(token) ? token : std::string_view();
}

}  // namespace cella::server
