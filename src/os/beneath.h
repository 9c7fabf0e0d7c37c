// Steps on paths that a guest controls, shared by the files of os/ that work on its directory: never through a symbolic
// link, never out of the directory. The caller has taken on the guest's identity.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"
#include "os/directory.h"

namespace cella::os {

// Every level of a walk holds a descriptor.
inline constexpr int kMaxDepth = 64;

UniqueFd OpenBeneath(int dir, const char* path, uint64_t flags, mode_t mode = 0);

// "file name '…' is not in the workspace" where a link or ".." was in the way, else the system's words.
std::unexpected<Error> NotInside(int sys_errno, const std::string& path);

// The directory that holds `path`, made with those above it where missing.
Result<UniqueFd> MakeParents(int dir, const std::string& path);
// The same, which must be there.
Result<UniqueFd> OpenParent(int dir, const std::string& path);

// What is behind the last '/'.
std::string LastName(const std::string& path);

// Calls `use` with each name until it says false. False: the directory could not be read. Files that are still being
// written (PendingFile) are not passed on unless asked for.
enum class PartFiles { kHide, kShow };
bool ForEachName(int dir, PartFiles parts, const std::function<bool(const char*)>& use);

EntryInfo InfoOf(const struct stat& info);

// The name of a file that is being written, and whether a name is one.
std::string NewPartName();
bool IsPartName(std::string_view name);

}  // namespace cella::os
