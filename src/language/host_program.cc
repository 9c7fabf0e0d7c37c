#include "language/host_program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "language/host_path.h"
#include "language/visible.h"

namespace cella::language {
namespace {

std::unexpected<Error> InGuestDirectory(const std::string& program) {
  return Err(ErrorCode::kUnsupported,
             "'{}' lies in a directory that guests can write to, so it is not run on the host to ask about itself; use "
             "one outside of --workdir and of writable mounts",
             program);
}

// Whoever may write the file, or exchange it, decides what runs.
Status CheckOwner(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return SysErr(errno, "stat '{}'", path);
  if (!TrustedOwner(info.st_uid)) {
    return Err(ErrorCode::kUnsupported,
               "'{}' belongs to another user (uid {}), so what it holds is not run on the host", path, info.st_uid);
  }
  bool sticky_directory = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0;
  if ((info.st_mode & S_IWOTH) != 0 && !sticky_directory) {
    return Err(ErrorCode::kUnsupported, "everybody may write to '{}', so what it holds is not run on the host", path);
  }
  return {};
}

}  // namespace

std::vector<std::string> NamesOf(std::string_view dir) {
  std::vector<std::string> names;
  if (!dir.starts_with('/')) return names;
  names.push_back(Normalize(dir, "/"));
  if (std::string real = RealPath(names[0]); !real.empty() && real != names[0]) names.push_back(std::move(real));
  return names;
}

std::string VirtualEnvironmentOf(const std::string& program) {
  std::string dir = DirName(program);
  for (const std::string& prefix : {dir, DirName(dir)}) {
    if (::access((prefix == "/" ? "/pyvenv.cfg" : prefix + "/pyvenv.cfg").c_str(), F_OK) == 0) return prefix;
  }
  return {};
}

Status CheckRunnable(const std::string& program, std::span<const std::string> guest_writable,
                     std::string_view virtual_env) {
  // By both names; what lies between them, the walk below looks at.
  if (LiesBelowAny(program, guest_writable)) return InGuestDirectory(program);
  auto real = ResolveHostPath(program, guest_writable);
  if (!real) {
    if (real.error().code != ErrorCode::kInvalid) return std::unexpected(std::move(real.error()));
    return Err(ErrorCode::kUnsupported, "'{}' is not run on the host to ask about itself: {}", program,
               real.error().message);
  }
  // What guests of earlier runs could write to is not known any more, but environments are where they usually could.
  std::string environment = VirtualEnvironmentOf(*real);
  if (std::vector<std::string> active = NamesOf(virtual_env); LiesBelowAny(program, active)) environment = active[0];
  if (!environment.empty() && !AlwaysVisible(*real)) {
    return Err(ErrorCode::kUnsupported,
               "'{}' is a file of the virtual environment '{}', of which nothing is run on the host", program,
               environment);
  }
  TRY_VOID(CheckOwner(*real));
  TRY_VOID(CheckOwner(DirName(*real)));
  return CheckOwner(DirName(program));
}

}  // namespace cella::language
