#include "language/host_program.h"

#include <sys/stat.h>

#include "language/host_path.h"
#include "language/visible.h"

namespace cella::language {
namespace {

// A user who may write to the file, or exchange a directory above it, decides what runs.
Status CheckOwners(const std::string& path) {
  for (std::string at = path;; at = DirName(at)) {
    struct stat info{};
    if (::stat(at.c_str(), &info) != 0) return SysErr(errno, "stat '{}'", at);
    const bool by_group = (info.st_mode & S_IWGRP) != 0 && info.st_gid != 0;
    if (!TrustedOwner(info.st_uid) || (info.st_mode & S_IWOTH) != 0 || by_group) {
      return Err(ErrorCode::kPermission, "others may change '{}'", at);
    }
    if (at == "/") return {};
  }
}

Status CheckPlace(const std::string& path, std::span<const std::string> places) {
  if (AlwaysVisible(path) || (!places.empty() && LiesBelowAny(path, places))) return {};
  return Err(ErrorCode::kPermission, "'{}' lies outside the system's directories", path);
}

}  // namespace

Status CheckHostProgram(const std::string& program, std::span<const std::string> places) {
  auto real = ResolveHostPath(program, {});
  if (!real && real.error().code == ErrorCode::kInvalid) {
    return Err(ErrorCode::kPermission, "{}", real.error().message);
  }
  if (!real) return std::unexpected(std::move(real.error()));
  for (const std::string& path : {Normalize(program, "/"), *real}) TRY_VOID(CheckPlace(path, places));
  // Every link on the way, and where it lies.
  for (const std::string& path : LinkChain(program)) TRY_VOID(CheckOwners(Normalize(path, "/")));
  return {};
}

}  // namespace cella::language
