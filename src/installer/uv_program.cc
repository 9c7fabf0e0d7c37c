#include "installer/uv_program.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/sha256.h"
#include "os/io.h"

namespace cella::installer {
namespace {

constexpr uint64_t kMaxProgram = uint64_t{128} << 20;

}  // namespace

Result<const PinnedUv*> UvForThisMachine() {
  struct utsname names;
  if (::uname(&names) < 0) return SysErr(errno, "uname");
  for (const PinnedUv& pinned : kPinnedUv) {
    if (pinned.machine == names.machine) return &pinned;
  }
  return Err(ErrorCode::kUnsupported, "no uv is pinned for {} machines: name one with CELLA_UV", names.machine);
}

std::string UvPlace(const environment::Store& store, const PinnedUv& pinned) {
  return fmt::format("{}/uv-{}-{}", store.tools(), kUvVersion, pinned.sha256.substr(0, 12));
}

Status TakeUv(const std::string& fetched, const PinnedUv& pinned, const std::string& place) {
  TRY(std::string content, os::ReadFile(fetched, kMaxProgram));
  if (std::string sum = Sha256Hex(content); sum != pinned.sha256) {
    return Err(ErrorCode::kPermission,
               "the index gave a uv {} with SHA-256 {}, and {} is expected: it is not used; name a uv with CELLA_UV",
               kUvVersion, sum, pinned.sha256);
  }
  // A new file: nothing that could be written in the jail keeps a descriptor of it.
  const std::string part = place + ".part";
  (void)::unlink(part.c_str());
  UniqueFd file(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755));
  if (!file) return SysErr(errno, "create '{}'", part);
  TRY_VOID(os::WriteAll(file.get(), content));
  if (::fchmod(file.get(), 0755) < 0 || ::rename(part.c_str(), place.c_str()) < 0) {
    return SysErr(errno, "install '{}'", place);
  }
  return {};
}

}  // namespace cella::installer
