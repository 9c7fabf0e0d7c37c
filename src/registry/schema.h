// The tables of the registry. `seq` is the order of rows; clocks jump.
#pragma once

#include "store/schema.h"

namespace cella::registry {

store::Schema RegistrySchema();

}  // namespace cella::registry
