#include "language/code_trust.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <sstream>

#include "language/guest_record.h"
#include "language/host_path.h"
#include "language/visible.h"

namespace cella::language {
namespace {

constexpr size_t kMaxGuestDirectories = 4096;
constexpr int kMaxEntries = 300'000;  // of all directories together; the largest installations have a third of that
constexpr int kMaxDepth = 40;
constexpr uint64_t kMaxAccounts = uint64_t{1} << 20;
constexpr char kByGuests[] = "guests may write to its environment";
constexpr char kByUsers[] = "other users may write to its environment";

struct FileInfo {
  FileId id;
  uid_t owner = 0;
  gid_t group = 0;
  mode_t mode = 0;
};

// As fstatat.
std::optional<FileInfo> Look(int directory, const char* path, int flags) {
  struct statx info;
  constexpr unsigned kWanted = STATX_BASIC_STATS | STATX_BTIME;
  if (::statx(directory, path, flags | AT_NO_AUTOMOUNT | AT_STATX_SYNC_AS_STAT, kWanted, &info) != 0) return {};
  const bool has_birth = (info.stx_mask & STATX_BTIME) != 0;
  const int64_t born = has_birth ? info.stx_btime.tv_sec * 1'000'000'000 + info.stx_btime.tv_nsec : 0;
  return FileInfo{
      {makedev(info.stx_dev_major, info.stx_dev_minor), info.stx_ino, born}, info.stx_uid, info.stx_gid, info.stx_mode};
}

std::optional<FileInfo> Follow(const std::string& path) { return Look(AT_FDCWD, path.c_str(), 0); }

bool IsDirectory(const std::string& path) {
  auto info = Follow(path);
  return info && S_ISDIR(info->mode);
}

std::vector<std::string> Fields(const std::string& line, char separator) {
  std::vector<std::string> fields;
  std::istringstream text(line);
  for (std::string field; std::getline(text, field, separator);) fields.push_back(std::move(field));
  return fields;
}

// The members of groups, by the files of accounts alone: a group that these do not list is not trusted.
class Groups {
 public:
  // All members are root or the caller.
  bool IsTrusted(gid_t gid) {
    auto [entry, is_new] = trusted_.try_emplace(gid, false);
    if (is_new) entry->second = Judge(gid);
    return entry->second;
  }

 private:
  bool Judge(gid_t gid) {
    if (!read_) Read();
    auto members = members_.find(gid);
    if (members == members_.end()) return false;
    return std::ranges::all_of(members->second, [&](const std::string& name) {
      auto uid = uids_.find(name);
      return uid != uids_.end() && TrustedOwner(uid->second);
    });
  }

  void Read() {
    read_ = true;
    auto passwd = ReadDataFile("/etc/passwd", kMaxAccounts);
    auto group = ReadDataFile("/etc/group", kMaxAccounts);
    if (!passwd || !group) return;
    std::istringstream groups(*group);
    for (std::string line; std::getline(groups, line);) {
      const std::vector<std::string> fields = Fields(line, ':');
      if (fields.size() < 3) continue;
      auto& members = members_[static_cast<gid_t>(std::strtoul(fields[2].c_str(), nullptr, 10))];
      if (fields.size() > 3) std::ranges::move(Fields(fields[3], ','), std::back_inserter(members));
    }
    std::istringstream users(*passwd);
    for (std::string line; std::getline(users, line);) {
      const std::vector<std::string> fields = Fields(line, ':');
      if (fields.size() < 4) continue;
      uids_[fields[0]] = static_cast<uid_t>(std::strtoul(fields[2].c_str(), nullptr, 10));
      members_[static_cast<gid_t>(std::strtoul(fields[3].c_str(), nullptr, 10))].push_back(fields[0]);
    }
  }

  bool read_ = false;
  std::map<gid_t, bool> trusted_;
  std::map<gid_t, std::vector<std::string>> members_;
  std::map<std::string, uid_t> uids_;
};

class Check {
 public:
  explicit Check(const GuestDirectories::Snapshot& guests) : guests_(guests) {
    for (const GuestDirectories::Entry& entry : guests.entries) {
      given_.insert(entry.id);
      // Under the path there may be another directory by now.
      for (std::string above = entry.path;; above = DirName(above)) {
        if (auto info = Follow(above)) {
          if (above == entry.path) given_.insert(info->id);
          above_given_.insert(info->id);
        }
        if (above == "/") break;
      }
    }
    given_.erase(FileId{});
  }

  std::string Run(const CodePlaces& code, Below below) {
    for (const std::string& place : code.places) TestPlace(place);
    const int levels = below == Below::kIsRead ? kMaxDepth : 1;
    for (const std::string& directory : code.directories) TestDirectory(directory, levels);
    for (const std::string& directory : code.libraries) TestDirectory(directory, 1);
    return why_;
  }

 private:
  void Object(const char* why) {
    if (why_.empty()) why_ = why;
  }

  // The path and what it leads to, with every link between and the directories on the way to each.
  void TestPlace(const std::string& path) {
    if (!why_.empty()) return;
    const std::string real = RealPath(path);
    TestWay(Normalize(path, "/"), Part::kCode);
    if (!real.empty()) TestWay(real, Part::kCode);
    if (!guests_.is_complete && !AlwaysVisible(real)) Object(kByGuests);
  }

  void TestDirectory(const std::string& directory, int levels) {
    TestPlace(directory);
    TestInside(directory);
    // By its real path once: lib64 is often a link to lib. Those of the system belong to root alone, and are large.
    const std::string real = RealPath(directory);
    if (!real.empty()) TestEntries(real, AlwaysVisible(real) ? 1 : levels);
  }

  // A directory that was given to guests lies in it.
  void TestInside(const std::string& directory) {
    auto info = Follow(directory);
    if (info && above_given_.contains(info->id)) Object(kByGuests);
  }

  enum class Part { kWay, kCode };

  void TestWay(const std::string& path, Part last) {
    Part kind = last;
    for (std::string part = path;; part = DirName(part), kind = Part::kWay) {
      if (!why_.empty() || !(kind == Part::kWay ? ways_ : codes_).insert(part).second) return;
      if (auto info = Look(AT_FDCWD, part.c_str(), AT_SYMLINK_NOFOLLOW)) {
        TestOwner(part, *info, kind);
        if (S_ISLNK(info->mode)) TestTargets(part, kind);
      }
      if (part == "/") return;
    }
  }

  void TestTargets(const std::string& link, Part kind) {
    for (const std::string& target : LinkChain(link)) {
      if (target != link) TestWay(target, kind);
    }
  }

  // Only root and the caller may write to it, whatever its access control list.
  bool IsHarmless(const FileInfo& info) const {
    return (info.mode & (S_IWGRP | S_IWOTH)) == 0 && TrustedOwner(info.owner) && !given_.contains(info.id);
  }

  void TestOwner(const std::string& path, const FileInfo& info, Part kind) {
    if (given_.contains(info.id)) return Object(kByGuests);
    if (!TrustedOwner(info.owner)) return Object(kByUsers);
    if (S_ISLNK(info.mode)) return;
    // In a sticky directory only the owner may exchange its entries.
    const bool is_sticky = S_ISDIR(info.mode) && (info.mode & S_ISVTX) != 0 && kind == Part::kWay;
    if (is_sticky) return;
    if ((info.mode & S_IWOTH) != 0) return Object(kByUsers);
    if ((info.mode & S_IWGRP) == 0) return;
    // With an access control list these bits are its mask, and say nothing of the group.
    const bool has_list = ::lgetxattr(path.c_str(), "system.posix_acl_access", nullptr, 0) > 0;
    if (has_list || !groups_.IsTrusted(info.group)) Object(kByUsers);
  }

  void TestEntries(const std::string& directory, int levels) {
    if (!why_.empty() || !entered_.insert(directory).second) return;
    const std::unique_ptr<DIR, decltype([](DIR* open) { ::closedir(open); })> open(::opendir(directory.c_str()));
    if (!open) return;
    for (;;) {
      const dirent* entry = ::readdir(open.get());
      if (entry == nullptr || !why_.empty()) return;
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (++entries_ > kMaxEntries) return Object("its environment is too large to check");
      const auto info = Look(::dirfd(open.get()), entry->d_name, AT_SYMLINK_NOFOLLOW);
      if (!info) continue;
      const bool is_link = S_ISLNK(info->mode);
      const bool is_directory = S_ISDIR(info->mode);
      if (!is_link && !is_directory && IsHarmless(*info)) continue;  // nearly all: there are thousands
      const std::string path = directory + "/" + entry->d_name;
      if (is_link) {
        TestPlace(path);
      } else {
        TestOwner(path, *info, Part::kCode);
      }
      // No module lies in a hidden directory, but whole histories do.
      if (levels == 1 || name.starts_with('.')) continue;
      if (is_directory) TestEntries(path, levels - 1);
      if (is_link && IsDirectory(path)) TestEntries(RealPath(path), levels - 1);
    }
  }

  const GuestDirectories::Snapshot& guests_;
  std::set<FileId> given_;
  std::set<FileId> above_given_;   // and those themselves
  std::set<std::string> ways_;     // tested as Part::kWay
  std::set<std::string> codes_;    // tested as Part::kCode
  std::set<std::string> entered_;  // whose entries were tested
  int entries_ = 0;
  Groups groups_;
  std::string why_;
};

}  // namespace

namespace {

GuestDirectories::Entry EntryOf(const std::string& path) {
  auto info = Follow(path);
  return {path, info ? info->id : FileId{}};
}

}  // namespace

void GuestDirectories::Add(std::span<const std::string> paths) {
  std::vector<Entry> added;
  for (const std::string& path : paths) {
    Entry entry = EntryOf(path);
    const std::lock_guard lock(mutex_);
    if (entries_.size() == kMaxGuestDirectories && !entries_.contains(entry)) {
      if (std::exchange(is_complete_, false)) ++version_;
    } else if (entries_.insert(entry).second) {
      ++version_;
    } else {
      continue;
    }
    added.push_back(std::move(entry));
  }
  if (!record_.empty() && !added.empty()) AppendToGuestRecord(record_, added);
}

bool GuestDirectories::Know(std::span<const std::string> paths) const {
  return std::ranges::all_of(paths, [&](const std::string& path) {
    const Entry entry = EntryOf(path);
    const std::lock_guard lock(mutex_);
    return entries_.contains(entry);
  });
}

GuestDirectories::Snapshot GuestDirectories::Take() const {
  const std::lock_guard lock(mutex_);
  return {{entries_.begin(), entries_.end()}, is_complete_, version_};
}

GuestDirectories::Snapshot GuestDirectories::TakeAll() const {
  Snapshot all = Take();
  auto recorded = record_.empty() ? std::nullopt : ReadGuestRecord(record_);
  if (recorded) {
    std::ranges::move(*recorded, std::back_inserter(all.entries));
  } else {
    all.is_complete = false;
  }
  return all;
}

uint64_t GuestDirectories::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

std::string WhyUntrusted(const CodePlaces& code, const GuestDirectories::Snapshot& guests, Below below) {
  return Check(guests).Run(code, below);
}

}  // namespace cella::language
