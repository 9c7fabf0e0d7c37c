// The storage of a command's own session: opened on a thread, shown to the session's code as `artifacts` and
// `workflows`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cella/policy.h"
#include "session/session.h"
#include "storage/spaces.h"

namespace cella::cli {

// Lives on the loop; outlives the session.
class StorageUse {
 public:
  // Opens the storage that the spec names, if it names one, and adds its namespaces to the session's.
  async::Task<Status> Open(async::Loop& loop, const SessionSpec& spec, storage::Spaces* spaces);
  // When the session exists. It outlives this, or Detach is called before its end.
  void Attach(session::Session& session);
  void Detach();

 private:
  std::optional<storage::Service> service_;
  std::shared_ptr<storage::SessionStorage> session_;
};

// Of requirements.txt in a storage; empty: there is none.
Result<std::vector<std::string>> RequirementsOf(const std::string& storage);

}  // namespace cella::cli
