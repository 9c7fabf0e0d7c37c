// With whose rights files of a guest are touched: started by root, never with root's own.
#pragma once

#include <sys/fsuid.h>
#include <sys/types.h>

#include <optional>

namespace cella::os {

struct FsIdentity {
  uid_t uid;
  gid_t gid;
};

// For the calling thread only. Leaving root's file-system uid also puts its file capabilities to sleep.
class ScopedFsIdentity {
 public:
  explicit ScopedFsIdentity(const std::optional<FsIdentity>& identity) : active_(identity.has_value()) {
    if (!active_) return;
    old_gid_ = static_cast<gid_t>(setfsgid(identity->gid));
    old_uid_ = static_cast<uid_t>(setfsuid(identity->uid));
  }
  ScopedFsIdentity(const ScopedFsIdentity&) = delete;
  ScopedFsIdentity& operator=(const ScopedFsIdentity&) = delete;
  ~ScopedFsIdentity() {
    if (!active_) return;
    setfsuid(old_uid_);
    setfsgid(old_gid_);
  }

 private:
  bool active_;
  uid_t old_uid_ = 0;
  gid_t old_gid_ = 0;
};

}  // namespace cella::os
