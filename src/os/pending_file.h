// A file of a guest's directory that is being written under a temporary name beside its place. It takes its place by a
// rename, so that no reader sees a half of it, or goes away with this object. Listings do not show it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"
#include "os/directory.h"

namespace cella::os {

class PendingFile {
 public:
  PendingFile(PendingFile&& other) noexcept;
  PendingFile& operator=(PendingFile&&) = delete;
  ~PendingFile();

  int fd() const { return file_.get(); }
  Status Write(std::string_view bytes);

  // A link of that name is replaced, not followed. Once only.
  Status Commit(Directory::IfExists if_exists);

 private:
  friend class Directory;
  PendingFile(UniqueFd parent, UniqueFd file, std::string part_name, std::string path,
              std::optional<FsIdentity> identity);

  UniqueFd parent_;
  UniqueFd file_;
  std::string part_name_;  // empty: nothing to take away
  std::string path_;
  std::optional<FsIdentity> identity_;
};

}  // namespace cella::os
