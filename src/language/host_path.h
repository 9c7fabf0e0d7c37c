// Paths of the host that a user names and a run mounts, reads or writes: resolved once, link by link, so that a link
// which an earlier guest (or, below root, another user) planted does not decide what the next guest gets. Blocks only
// on the file system; safe from any thread as long as the current directory does not change.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cella::language {

// The absolute real path of an existing file or directory. A relative path starts at the current directory.
// `guest_writable` holds real paths of directories that guests may write to. kInvalid: the path is empty, or leads over
// a symbolic link that lies in or below one of those, that belongs to a user whom we do not trust, or that is one of
// the kernel's (/proc/self/fd/3); the message names the link. kNotFound and others: as errno has it.
Result<std::string> ResolveHostPath(std::string_view path, std::span<const std::string> guest_writable);

// The same for a directory that need not exist yet: what is missing at the end is appended as it is written, and must
// not contain "..". kInvalid also when it exists and is no directory.
Result<std::string> ResolveHostDirectoryForCreation(std::string_view path, std::span<const std::string> guest_writable);

// Root, ourselves, and whom "/" belongs to: in a user namespace that maps only ourselves, root's files seem to be
// those of "nobody".
bool TrustedOwner(uid_t uid);

// The content of a file that a guest may have written: regular files only, since opening a FIFO would block.
Result<std::string> ReadDataFile(const std::string& path, uint64_t limit);

// `path`, or the real path behind it, is one of the directories or lies below one.
bool LiesBelowAny(const std::string& path, std::span<const std::string> dirs);

}  // namespace cella::language
