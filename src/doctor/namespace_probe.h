// Tries the kernel's mechanisms in the way the launcher uses them. Everything happens in forked children and vanishes
// with them. For a single-threaded caller; bounded at two seconds.
#pragma once

#include <string>

#include "doctor/facts.h"

namespace cella::doctor {

// Who the launcher would be, as the caller is started now.
Builder CurrentBuilder();

// `directory` is where idmapped mounts are tried: whether they work is a matter of the file system.
KernelAttempts TryKernel(Builder builder, const std::string& directory);

}  // namespace cella::doctor
