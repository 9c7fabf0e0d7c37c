// The pinned uv in a store: where it lies, and the check before it gets there. Blocks on the file system.
#pragma once

#include <string>

#include "base/result.h"
#include "environment/store.h"
#include "installer/pinned_uv.h"

namespace cella::installer {

// kUnsupported: none is pinned for this machine.
Result<const PinnedUv*> UvForThisMachine();

std::string UvPlace(const environment::Store& store, const PinnedUv& pinned);

// Moves the program to its place if its SHA-256 is the pinned one.
Status TakeUv(const std::string& fetched, const PinnedUv& pinned, const std::string& place);

}  // namespace cella::installer
