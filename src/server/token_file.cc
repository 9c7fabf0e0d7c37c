#include "server/token_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/scope_exit.h"
#include "base/sha256.h"
#include "base/unique_fd.h"
#include "language/visible.h"
#include "os/io.h"
#include "policy/names.h"
#include "server/tokens.h"

namespace cella::server {
namespace {

constexpr int kLockTries = 200;
constexpr timespec kLockPause = {.tv_sec = 0, .tv_nsec = 50'000'000};

Status FillRandom(std::span<uint8_t> bytes) {
  // Up to 256 bytes come whole.
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return SysErr(errno, "random bytes");
  }
  return {};
}

// 256 bits, in letters that no shell, header or URL minds.
Result<std::string> MakeToken() {
  std::array<uint8_t, 32> random;
  TRY_VOID(FillRandom(random));
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string token = "cella_";
  uint32_t bits = 0;
  int count = 0;
  for (uint8_t byte : random) {
    bits = bits << 8 | byte;
    for (count += 8; count >= 6; count -= 6) token += kLetters[(bits >> (count - 6)) & 63];
  }
  token += kLetters[(bits << (6 - count)) & 63];
  ::explicit_bzero(random.data(), random.size());
  return token;
}

// The token file, held against others who would change it. The directory carries the lock: the file is replaced.
class LockedFile {
 public:
  static Result<LockedFile> Open(const std::string& path) {
    // Through a link the file behind it is replaced, not the link.
    std::string real = language::RealPath(path);
    if (real.empty()) real = path;
    LockedFile file;
    file.path_ = path;
    file.name_ = real.substr(real.rfind('/') + 1);
    std::string directory = real.contains('/') ? language::DirName(real) : ".";
    if (file.name_.empty()) return Err(ErrorCode::kInvalid, "'{}' is not the path of a file", path);
    TRY_VOID(MakeDirectory(directory));
    file.directory_ = UniqueFd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!file.directory_) return SysErr(errno, "open the directory '{}'", directory);
    for (int tries = 0; ::flock(file.directory_.get(), LOCK_EX | LOCK_NB) != 0; ++tries) {
      if (errno != EWOULDBLOCK && errno != EINTR) return SysErr(errno, "lock the directory '{}'", directory);
      if (tries == kLockTries) {
        return Err(ErrorCode::kExhausted, "another process has held the directory '{}' for ten seconds", directory);
      }
      (void)::nanosleep(&kLockPause, nullptr);
    }
    return file;
  }

  // Nothing: there is no such file.
  Result<std::optional<std::string>> Read() const {
    auto text = ReadTokenFile(path_);
    if (text) return std::optional(std::move(*text));
    if (text.error().sys_errno == ENOENT) return std::nullopt;
    return std::unexpected(std::move(text.error()));
  }

  Status Replace(std::string_view text) const {
    std::array<uint8_t, 8> random;
    TRY_VOID(FillRandom(random));
    std::string temporary = "." + name_;
    for (uint8_t byte : random) temporary += fmt::format("{:02x}", byte);
    int at = directory_.get();
    UniqueFd fd(::openat(at, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd) return SysErr(errno, "create a file beside '{}'", path_);
    ScopeExit remove([&] { (void)::unlinkat(at, temporary.c_str(), 0); });
    // Root edits for whom it belongs to, who must still be able to read it.
    struct stat old{};
    if (::fstatat(at, name_.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0 && old.st_uid != ::geteuid() &&
        ::fchown(fd.get(), old.st_uid, old.st_gid) != 0) {
      return SysErr(errno, "give '{}' to its owner", path_);
    }
    if (::fchmod(fd.get(), 0600) != 0) return SysErr(errno, "protect '{}'", path_);
    TRY_VOID(os::WriteAll(fd.get(), text));
    // Content before name before directory: a crash leaves the old file or the new one.
    if (::fsync(fd.get()) != 0) return SysErr(errno, "write '{}'", path_);
    if (::renameat(at, temporary.c_str(), at, name_.c_str()) != 0) return SysErr(errno, "replace '{}'", path_);
    remove.Release();
    if (::fsync(at) != 0) return SysErr(errno, "write the directory of '{}'", path_);
    return {};
  }

 private:
  LockedFile() = default;

  static Status MakeDirectory(const std::string& directory) {
    for (size_t slash = directory.find('/', 1);; slash = directory.find('/', slash + 1)) {
      std::string part = directory.substr(0, slash);
      if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) return SysErr(errno, "create '{}'", part);
      if (slash == std::string::npos) return {};
    }
  }

  std::string path_, name_;
  UniqueFd directory_;
};

}  // namespace

Result<std::string> AddToken(const std::string& path, std::string_view client) {
  if (!policy::IsName(client) || client == "sha256") {
    return Err(ErrorCode::kInvalid,
               "'{}' is not a name for a client: letters, digits, '.', '_' and '-', 64 at most, and not 'sha256'",
               policy::Shown(client));
  }
  TRY(LockedFile file, LockedFile::Open(path));
  TRY(std::optional<std::string> old, file.Read());
  std::string text = std::move(old).value_or("");
  ScopeExit wipe([&] { ::explicit_bzero(text.data(), text.size()); });
  TRY(TokenSet set, TokenSet::Parse(text, path));
  for (const TokenSet::Entry& entry : set.entries()) {
    if (entry.client == client) {
      return Err(ErrorCode::kInvalid, "'{}' has a token already ({}:{}): remove it first", client, path, entry.line);
    }
  }
  TRY(std::string token, MakeToken());
  if (!text.empty() && !text.ends_with('\n')) text += '\n';
  text += fmt::format("{}:sha256:{}\n", client, Sha256Hex(token));
  TRY_VOID(file.Replace(text));
  return token;
}

Status RemoveToken(const std::string& path, std::string_view client) {
  // Before the lock, which would make the directory.
  if (::access(path.c_str(), F_OK) != 0) return SysErr(errno, "the token file '{}'", path);
  TRY(LockedFile file, LockedFile::Open(path));
  TRY(std::optional<std::string> old, file.Read());
  std::string text = std::move(old).value_or("");
  ScopeExit wipe([&] { ::explicit_bzero(text.data(), text.size()); });
  TRY(TokenSet set, TokenSet::Parse(text, path));
  for (const TokenSet::Entry& entry : set.entries()) {
    if (entry.client != client) continue;
    // Its line, and nothing else: comments stay.
    size_t begin = 0;
    for (size_t line = 1; line < entry.line; ++line) begin = text.find('\n', begin) + 1;
    size_t end = text.find('\n', begin);
    text.erase(begin, end == std::string::npos ? end : end - begin + 1);
    return file.Replace(text);
  }
  return Err(ErrorCode::kNotFound, "'{}' has no client '{}'", path, policy::Shown(client));
}

}  // namespace cella::server
