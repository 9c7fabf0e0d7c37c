#include "storage/service.h"

#include <string_view>

namespace cella::storage {
namespace {

constexpr size_t kMostWritable = 10'000;

bool IsBelow(std::string_view path, std::string_view dir) {
  return dir == "/" || (path.starts_with(dir) && (path.size() == dir.size() || path[dir.size()] == '/'));
}

}  // namespace

std::string WhyWritable(const std::string& path, const std::vector<std::string>& guest_writable) {
  for (const std::string& dir : guest_writable) {
    if (IsBelow(path, dir)) {
      return fmt::format("code may write to '{}', where the storage lies: choose a directory elsewhere", dir);
    }
    if (IsBelow(dir, path)) {
      return fmt::format("code may write to '{}', a part of the storage: choose a directory elsewhere", dir);
    }
  }
  return "";
}

async::Task<Result<std::shared_ptr<FileStorage>>> Service::Open(std::string path, Bounds bounds) {
  auto pass = co_await opening_.Enter();
  if (auto found = open_.find(path); found != open_.end()) {
    if (auto storage = found->second.lock()) co_return storage;
  }
  auto open = [&] { return FileStorage::Open(path, bounds, check_); };
  auto opened = co_await pool_.Run(open);
  if (!opened) co_return std::unexpected(std::move(opened.error()));
  std::erase_if(open_, [](const auto& each) { return each.second.expired(); });
  std::erase_if(gates_, [](const auto& each) { return each.second.use_count() == 1; });
  std::shared_ptr<FileStorage> storage = std::move(*opened);
  open_[path] = storage;
  co_return storage;
}

std::shared_ptr<async::Gate> Service::GateOf(const std::string& path) {
  std::shared_ptr<async::Gate>& gate = gates_[path.substr(0, path.rfind('/'))];
  if (!gate) gate = std::make_shared<async::Gate>(loop_, kThreads / 2);
  return gate;
}

std::string Service::NoteWritable(const std::vector<std::string>& directories) {
  for (const auto& [path, storage] : open_) {
    if (storage.expired()) continue;
    if (std::string why = WhyWritable(path, directories); !why.empty()) return why;
  }
  for (const std::string& directory : directories) {
    if (writable_.size() < kMostWritable) writable_.insert(directory);
  }
  return "";
}

std::string Service::WhyNot(const std::string& path) const {
  if (writable_.size() >= kMostWritable) return "code could write to too many directories: start another server";
  return WhyWritable(path, {writable_.begin(), writable_.end()});
}

}  // namespace cella::storage
