// Which directories of the host a guest must see so that a program outside the system trees runs. Paths only, decided
// here once: what is always visible, what is never shown, and how a symbolic link's both ends are covered.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cella::language {

// Below /usr, /bin, /sbin, /lib, /lib64 or /lib32, which every jail shows. Lexical.
bool AlwaysVisible(std::string_view path);

// One of the directories of the guest's own PATH (/usr/local/bin, /usr/bin, …).
bool StandardBinDirectory(std::string_view dir);

// All of them, as a PATH.
std::string StandardPath();

// The tree that a program belongs to: what holds its bin directory, else the directory it lies in.
std::string PrefixOf(std::string_view program);

// True for `dir` itself and everything below it. Lexical.
bool IsBelow(std::string_view path, std::string_view dir);

// Without "." and ".." components and doubled or trailing slashes, made absolute with `cwd`. Lexical.
std::string Normalize(std::string_view path, std::string_view cwd);

std::string DirName(std::string_view path);
std::string_view BaseName(std::string_view path);

// The canonical path, or "" when there is none.
std::string RealPath(const std::string& path);

// The path and every path that its last component's symbolic links lead over, the real one last; absolute. Links among
// the directories are not listed: see VisibleSet::Add.
std::vector<std::string> LinkChain(const std::string& path);

// The path and the real path behind it lie in one of the directories, or are always visible.
bool IsShown(const std::string& path, std::span<const std::string> dirs);

// Collects directories, each by its literal and by its real path.
class VisibleSet {
 public:
  explicit VisibleSet(std::string_view home);

  // Nothing happens for what is always visible; below /nix/store and Linuxbrew the whole tree is taken, since their
  // programs refer to each other all over it. kUnsupported for a directory that holds more than programs ("/", "/home",
  // a home directory); of ~/.local, which holds private data too, only bin, lib and libexec are taken.
  Status Add(const std::string& dir);

  bool Covers(std::string_view path) const;

  // Sorted, without what lies below another entry.
  std::vector<std::string> Take();

 private:
  Status AddOne(const std::string& dir);
  bool TooWide(std::string_view dir) const;

  std::vector<std::string> homes_;  // literal and real
  std::vector<std::string> dirs_;
};

}  // namespace cella::language
