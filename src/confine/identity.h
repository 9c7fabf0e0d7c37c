// As whom a jail is built. A guest never runs as host uid 0, not even mapped.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "jail/spec.h"

namespace cella::confine {

enum class BuildMode {
  kOrdinary,    // an ordinary user: the guest is that user, alone in its namespaces
  kPrivileged,  // root: the guest is a host uid that no other user has
  kDropFirst,   // root without CAP_SYS_ADMIN (a plain container): first become an unprivileged uid, then as ordinary
};

struct BuildIdentity {
  BuildMode mode = BuildMode::kOrdinary;
  uint32_t host_uid = 0;
  uint32_t host_gid = 0;

  void Describe(jail::JailSpec* spec) const;
};

// `number` tells concurrent jails of this machine apart; a process id will do.
Result<BuildIdentity> ChooseIdentity(uint32_t number);

// The decision itself, for given facts.
Result<BuildIdentity> ChooseIdentity(uint32_t number, uint32_t euid, uint32_t egid, bool has_sys_admin,
                                     std::string_view uid_map);

}  // namespace cella::confine
