#include "language/visible.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>

namespace cella::language {
namespace {

constexpr std::string_view kSystemTrees[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32"};
constexpr std::string_view kStandardBin[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                             "/usr/bin",        "/sbin",          "/bin"};
constexpr std::string_view kWholeTrees[] = {"/nix/store", "/home/linuxbrew/.linuxbrew"};
// Holds other things than programs, on every distribution.
constexpr std::string_view kTooWide[] = {"/",    "/home", "/root", "/etc",  "/var", "/var/lib", "/var/tmp", "/tmp",
                                         "/opt", "/mnt",  "/srv",  "/boot", "/run", "/media",   "/nix"};
constexpr std::string_view kKernelTrees[] = {"/proc", "/sys", "/dev"};

constexpr int kMaxLinks = 40;  // as the kernel's own limit

}  // namespace

bool IsBelow(std::string_view path, std::string_view dir) {
  if (dir == "/") return path.starts_with('/');
  return path.starts_with(dir) && (path.size() == dir.size() || path[dir.size()] == '/');
}

bool AlwaysVisible(std::string_view path) {
  return std::ranges::any_of(kSystemTrees, [&](std::string_view tree) { return IsBelow(path, tree); });
}

bool StandardBinDirectory(std::string_view dir) {
  return std::ranges::find(kStandardBin, dir) != std::end(kStandardBin);
}

std::string StandardPath() {
  std::string path;
  for (std::string_view dir : kStandardBin) path += fmt::format("{}{}", path.empty() ? "" : ":", dir);
  return path;
}

std::string PrefixOf(std::string_view program) {
  std::string dir = DirName(program);
  std::string_view last = BaseName(dir);
  return last == "bin" || last == "sbin" ? DirName(dir) : dir;
}

std::string Normalize(std::string_view path, std::string_view cwd) {
  std::string joined;
  if (!path.starts_with('/')) {
    joined = cwd.empty() ? "/" : std::string(cwd);
    joined += '/';
  }
  joined += path;
  std::string clean;
  for (std::string_view rest = joined; !rest.empty();) {
    size_t slash = rest.find('/');
    std::string_view component = rest.substr(0, slash);
    rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
    if (component.empty() || component == ".") continue;
    if (component == "..") {
      clean.erase(std::min(clean.rfind('/'), clean.size()));
    } else {
      clean += '/';
      clean += component;
    }
  }
  return clean.empty() ? "/" : clean;
}

std::string DirName(std::string_view path) {
  size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string_view::npos ? "/" : std::string(path.substr(0, slash));
}

std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string RealPath(const std::string& path) {
  char buffer[PATH_MAX];
  return ::realpath(path.c_str(), buffer) == nullptr ? std::string() : std::string(buffer);
}

std::vector<std::string> LinkChain(const std::string& path) {
  std::vector<std::string> chain = {path};
  for (int i = 0; i < kMaxLinks; ++i) {
    char target[PATH_MAX];
    ssize_t length = ::readlink(chain.back().c_str(), target, sizeof(target));
    if (length <= 0 || length == sizeof(target)) break;
    // ".." of a relative link is taken from the real directory, as the kernel takes it.
    std::string dir = RealPath(DirName(chain.back()));
    chain.push_back(Normalize(std::string_view(target, static_cast<size_t>(length)), dir));
  }
  if (std::string real = RealPath(path); !real.empty() && real != chain.back()) chain.push_back(std::move(real));
  return chain;
}

bool IsShown(const std::string& path, std::span<const std::string> dirs) {
  auto shown = [&](const std::string& each) {
    return AlwaysVisible(each) || std::ranges::any_of(dirs, [&](const auto& dir) { return IsBelow(each, dir); });
  };
  if (!path.starts_with('/') || path.contains('\0')) return false;
  std::string real = RealPath(path);
  return shown(Normalize(path, "/")) && !real.empty() && shown(real);
}

VisibleSet::VisibleSet(std::string_view home) {
  if (!home.starts_with('/')) return;
  homes_.push_back(Normalize(home, "/"));
  if (std::string real = RealPath(homes_[0]); !real.empty() && real != homes_[0]) homes_.push_back(std::move(real));
}

bool VisibleSet::TooWide(std::string_view dir) const {
  if (std::ranges::find(kTooWide, dir) != std::end(kTooWide)) return true;
  // A user's home directory.
  if (DirName(dir) == "/home") return true;
  if (std::ranges::any_of(kKernelTrees, [&](std::string_view tree) { return IsBelow(dir, tree); })) return true;
  return std::ranges::any_of(homes_, [&](const std::string& home) { return IsBelow(home, dir); });
}

Status VisibleSet::AddOne(const std::string& dir) {
  if (AlwaysVisible(dir)) return {};
  for (std::string_view tree : kWholeTrees) {
    if (!IsBelow(dir, tree)) continue;
    dirs_.emplace_back(tree);
    return {};
  }
  if (TooWide(dir)) {
    return Err(ErrorCode::kUnsupported,
               "the sandbox would have to show all of '{}', which holds more than programs; "
               "install the program below /usr/local or in a directory of its own",
               dir);
  }
  for (const std::string& home : homes_) {
    if (dir != home + "/.local") continue;
    for (const char* part : {"/bin", "/lib", "/libexec"}) {
      if (::access((dir + part).c_str(), F_OK) == 0) dirs_.push_back(dir + part);
    }
    return {};
  }
  dirs_.push_back(dir);
  return {};
}

Status VisibleSet::Add(const std::string& dir) {
  if (std::ranges::find(dirs_, dir) != dirs_.end()) return {};
  // Both are judged before either is taken, so that a refusal leaves nothing behind.
  size_t before = dirs_.size();
  Status status = AddOne(dir);
  if (status) {
    if (std::string real = RealPath(dir); !real.empty() && real != dir) status = AddOne(real);
  }
  if (!status) dirs_.resize(before);
  return status;
}

bool VisibleSet::Covers(std::string_view path) const {
  return AlwaysVisible(path) || std::ranges::any_of(dirs_, [&](const std::string& dir) { return IsBelow(path, dir); });
}

std::vector<std::string> VisibleSet::Take() {
  std::ranges::sort(dirs_);
  std::vector<std::string> kept;
  for (std::string& dir : dirs_) {
    // What is a link inside another entry needs no mount of its own: its target is an entry too.
    bool below = std::ranges::any_of(kept, [&](const std::string& other) { return IsBelow(dir, other); });
    if (!below) kept.push_back(std::move(dir));
  }
  dirs_.clear();
  return kept;
}

}  // namespace cella::language
