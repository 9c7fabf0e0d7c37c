// Brings a database to the form that this program knows. The number of steps that were taken is in the file
// (user_version), and so is whose file it is (application_id).
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "store/database.h"

namespace cella::store {

struct Schema {
  int32_t application_id = 0;
  std::span<const char* const> steps;  // SQL; one that was released is never changed, only followed by another
};

// Each step happens wholly or not at all. kUnsupported: a newer program wrote the file; kInvalid: another program did.
Status Migrate(Database& database, const Schema& schema);

}  // namespace cella::store
