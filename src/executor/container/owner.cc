#include "executor/container/owner.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "base/text.h"
#include "os/io.h"

namespace cella::executor {
namespace {

constexpr uint64_t kProcFile = 65536;

// When the process started, in ticks since the machine did; empty: there is none. A zombie counts as gone.
std::string StartOf(const std::string& pid) {
  auto stat = os::ReadFile("/proc/" + pid + "/stat", kProcFile);
  if (!stat) return {};
  // The name of the program may hold anything, so fields are counted behind its last parenthesis.
  size_t at = stat->rfind(')');
  if (at == stat->npos || at + 2 >= stat->size()) return {};
  std::vector<std::string> fields;
  for (size_t begin = at + 2; begin < stat->size() && fields.size() < 20;) {
    size_t end = stat->find(' ', begin);
    if (end == stat->npos) end = stat->size();
    fields.push_back(stat->substr(begin, end - begin));
    begin = end + 1;
  }
  constexpr size_t kState = 0, kStartTime = 19;
  if (fields.size() <= kStartTime || fields[kState] == "Z" || fields[kState] == "X") return {};
  return fields[kStartTime];
}

Result<std::string> ThisPlace() {
  TRY(std::string boot, os::ReadFile("/proc/sys/kernel/random/boot_id", kProcFile));
  while (!boot.empty() && boot.back() == '\n') boot.pop_back();
  struct stat info;
  if (stat("/proc/self/ns/pid", &info) < 0) return SysErr(errno, "read '/proc/self/ns/pid'");
  return fmt::format("{}.{}", boot, info.st_ino);
}

}  // namespace

Result<std::string> OwnerOfThisProcess() {
  TRY(std::string place, ThisPlace());
  const std::string pid = std::to_string(getpid());
  const std::string start = StartOf(pid);
  if (start.empty()) return Err(ErrorCode::kUnsupported, "'/proc/{}/stat' cannot be read", pid);
  return fmt::format("{}.{}.{}", place, pid, start);
}

bool IsOrphan(const std::string& owner) {
  auto place = ThisPlace();
  if (!place || !owner.starts_with(*place + ".")) return false;
  const std::string rest = owner.substr(place->size() + 1);
  const size_t dot = rest.find('.');
  if (dot == rest.npos || dot == 0) return false;
  const std::string pid = rest.substr(0, dot);
  const std::string start = rest.substr(dot + 1);
  if (pid.find_first_not_of("0123456789") != pid.npos || start.empty()) return false;
  return StartOf(pid) != start;
}

}  // namespace cella::executor
