#include "cli/storage_use.h"

#include <unistd.h>

#include "engine/source_check.h"
#include "environment/requirements_file.h"

namespace cella::cli {

async::Task<Status> StorageUse::Open(async::Loop& loop, const SessionSpec& spec, storage::Spaces* spaces) {
  if (spec.storage.empty()) co_return Status{};
  service_.emplace(
      loop, engine::MakeSourceCheck({.python = spec.policy.python, .guest_writable = GuestWritable(spec.policy)}));
  auto opened = co_await service_->Open(spec.storage, {});
  if (!opened) co_return std::unexpected(std::move(opened.error()).WithContext("--storage"));
  session_ = std::make_shared<storage::SessionStorage>(
      storage::SessionStorage{.service = *service_, .storage = std::move(*opened), .confined = IsConfined(spec)});
  storage::AddSpaces(session_, spaces);
  co_return Status{};
}

void StorageUse::Attach(session::Session& session) {
  if (session_) session_->workspace = [&session] { return session.workspace(); };
}

void StorageUse::Detach() {
  if (session_) session_->workspace = nullptr;
}

Result<std::vector<std::string>> RequirementsOf(const std::string& storage) {
  std::vector<std::string> texts;
  const std::string path = storage + "/requirements.txt";
  if (storage.empty() || access(path.c_str(), F_OK) != 0) return texts;
  TRY(auto file, environment::ReadRequirementsFile(path));
  for (const auto& package : file.packages) texts.push_back(package.text);
  return texts;
}

}  // namespace cella::cli
