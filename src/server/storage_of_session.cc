#include "server/storage_of_session.h"

#include <unistd.h>

#include <filesystem>

#include "environment/requirements_file.h"
#include "language/visible.h"
#include "policy/keys.h"
#include "server/answer.h"

namespace cella::server {
namespace {

// A new one in the directory of a client.
Status CheckCount(const Config& config, const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (config.allow.whole_machine || fs::exists(path, error)) return {};
  const auto count = static_cast<uint64_t>(
      std::distance(fs::directory_iterator(language::DirName(path), error), fs::directory_iterator()));
  if (error || count < config.storage.max_storages) return {};
  return Err(ErrorCode::kExhausted, "storage: a client has at most {} storages", config.storage.max_storages);
}

Result<std::vector<std::string>> ReadRequirements(const std::string& storage) {
  const std::string path = storage + "/requirements.txt";
  if (access(path.c_str(), F_OK) != 0) return std::vector<std::string>();
  auto file = environment::ReadRequirementsFile(path);
  if (!file) return std::unexpected(std::move(file.error()).WithContext("storage"));
  std::vector<std::string> texts;
  for (const auto& package : file->packages) texts.push_back(package.text);
  return texts;
}

}  // namespace

async::Task<Answer<OpenedStorage>> OpenStorage(Hub& hub, const SessionSpec& spec) {
  const bool jailed = IsConfined(spec);
  if (jailed) {
    if (std::string why = hub.storages.NoteWritable(GuestWritable(spec.policy)); !why.empty()) {
      co_return Forbidden("workdir or mounts: " + why);
    }
  }
  OpenedStorage opened;
  if (spec.storage.empty()) co_return opened;
  if (std::string why = hub.storages.WhyNot(spec.storage); !why.empty()) co_return Forbidden("storage: " + why);
  const storage::Bounds bounds{.bytes = hub.config.storage.max_bytes, .files = hub.config.storage.max_files};
  auto counted = CheckCount(hub.config, spec.storage);
  if (!counted) co_return Forbidden(counted.error().message);
  auto storage = co_await hub.storages.Open(spec.storage, bounds);
  if (!storage) co_return Refused(std::move(storage.error()).WithContext("storage"));
  const bool installs = hub.config.allow.runtime_deps || hub.config.allow.whole_machine;
  if (installs && policy::TakesPackages(spec)) {
    auto read = [&] { return ReadRequirements(spec.storage); };
    auto requirements = co_await hub.storages.pool().Run(read);
    if (!requirements) co_return Refused(requirements.error());
    opened.requirements = std::move(*requirements);
  }
  opened.session = std::make_shared<storage::SessionStorage>(
      storage::SessionStorage{.service = hub.storages, .storage = std::move(*storage), .confined = jailed});
  co_return opened;
}

}  // namespace cella::server
