// Which limits cgroups can hold here: a group is really made, with limits, and removed again.
#pragma once

#include "doctor/facts.h"

namespace cella::doctor {

// Like every start of a run, this may on cgroup v2 move the calling process into a leaf of its own cgroup.
CgroupFacts TryCgroups();

}  // namespace cella::doctor
