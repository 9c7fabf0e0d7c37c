// Opens the storage of a session that is about to begin, within what the configuration allows its client.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "async/task.h"
#include "cella/policy.h"
#include "server/api_error.h"
#include "server/hub.h"
#include "storage/spaces.h"

namespace cella::server {

struct OpenedStorage {
  std::shared_ptr<storage::SessionStorage> session;  // null: it asked for none
  std::vector<std::string> requirements;             // of requirements.txt there
};

// 403: guests may write there, or the client has too many.
async::Task<Answer<OpenedStorage>> OpenStorage(Hub& hub, const SessionSpec& spec);

}  // namespace cella::server
