#include "executor/container/layer_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/wire.h"
#include "os/io.h"
#include "os/syscalls.h"

namespace cella::executor {
namespace {

constexpr size_t kBatchBytes = size_t{1} << 20;
constexpr size_t kBatchFiles = 256;

}  // namespace

Result<LayerReader> LayerReader::Open(const std::string& source, std::string target) {
  std::error_code error;
  std::filesystem::recursive_directory_iterator entry(source, error);
  if (error) return SysErr(error.value(), "read '{}'", source);
  return LayerReader(std::move(entry), source, std::move(target));
}

// The installer has checked that links lead to files of the same tree: their content is sent.
Result<bool> LayerReader::OpenNext() {
  std::error_code error;
  for (; entry_ != std::filesystem::recursive_directory_iterator(); entry_.increment(error)) {
    if (error) return SysErr(error.value(), "read '{}'", source_);
    const std::string path = entry_->path();
    if (!entry_->is_regular_file(error)) continue;
    file_ = UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat info;
    if (!file_ || fstat(file_.get(), &info) < 0 || !S_ISREG(info.st_mode)) return SysErr(errno, "read '{}'", path);
    path_ = target_ + path.substr(source_.size());
    mode_ = (info.st_mode & 0100) != 0 ? 0755 : 0644;
    is_first_ = true;
    entry_.increment(error);
    return true;
  }
  if (error) return SysErr(error.value(), "read '{}'", source_);
  return false;
}

Result<std::vector<std::string>> LayerReader::Next() {
  std::vector<std::string> payloads;
  for (size_t bytes = 0; bytes < kBatchBytes && payloads.size() < kBatchFiles;) {
    if (!file_) {
      TRY(const bool is_there, OpenNext());
      if (!is_there) break;
    }
    const agent::PutOptions options = {mode_, static_cast<uint32_t>(path_.size()), is_first_ ? 1u : 0u,
                                       1,     agent::PutRoot::kPackages,           0};
    std::string payload(reinterpret_cast<const char*>(&options), sizeof options);
    payload += path_;
    const size_t head = payload.size();
    payload.resize(head + agent::kFileChunk);
    const ssize_t n = os::RetryOnEintr([&] { return read(file_.get(), payload.data() + head, agent::kFileChunk); });
    if (n < 0) return SysErr(errno, "read '{}'", path_);
    payload.resize(head + static_cast<size_t>(n));
    if (n == 0) file_.Reset();
    if (n == 0 && !is_first_) continue;  // its end; an empty file is sent, too
    is_first_ = false;
    bytes += payload.size();
    payloads.push_back(std::move(payload));
  }
  return payloads;
}

}  // namespace cella::executor
