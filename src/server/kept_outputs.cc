#include "server/kept_outputs.h"

#include <algorithm>

namespace cella::server {
namespace {

constexpr size_t kMostParts = 4096;

Error NotKept() { return Error{ErrorCode::kNotFound, "it is not kept any more", 0}; }

}  // namespace

// Where it begins; nothing: there is no room, or the disk failed.
async::Task<std::optional<uint64_t>> KeptOutputs::Append(const std::string& text) {
  const uint64_t offset = file_.size();
  if (discarded_ || text.empty() || text.size() > bound_ - std::min(bound_, offset)) co_return std::nullopt;
  // A copy for the thread of the pool; the file's size is known here when the thread is done.
  registry::SpillFile file = file_;
  auto write = [&]() -> Result<bool> {
    TRY_VOID(file.Append(text));
    return true;
  };
  auto written = co_await pool_.Run(write);
  if (discarded_) file.Remove();
  if (discarded_ || !written) co_return std::nullopt;
  file_ = std::move(file);
  co_return offset;
}

async::Task<void> KeptOutputs::Add(size_t index, MimeBundle bundle) {
  for (auto& [type, data] : bundle.data) {
    if (parts_.size() >= kMostParts) co_return;
    auto offset = co_await Append(data);
    if (offset) parts_.push_back({index, std::move(type), *offset, data.size()});
  }
}

async::Task<bool> KeptOutputs::AddResult(const std::string& result) {
  auto offset = co_await Append(result);
  if (offset) result_ = Part{0, "", *offset, result.size()};
  co_return offset.has_value();
}

async::Task<Result<std::string>> KeptOutputs::ReadPart(Part part) const {
  const registry::SpillFile file = file_;
  auto read = [&]() -> Result<std::string> {
    std::string text(static_cast<size_t>(part.size), '\0');
    TRY(const size_t n, file.ReadAt(part.offset, text));
    if (n != text.size()) return std::unexpected(NotKept());
    return text;
  };
  auto text = co_await pool_.Run(read);
  if (!text && text.error().code != ErrorCode::kExhausted) co_return std::unexpected(NotKept());
  co_return text;
}

async::Task<Result<std::string>> KeptOutputs::Read(size_t index, std::string_view type) const {
  for (const Part& part : parts_) {
    if (part.index != index || part.type != type) continue;
    auto text = co_await ReadPart(part);
    co_return text;
  }
  co_return std::unexpected(NotKept());
}

async::Task<Result<std::string>> KeptOutputs::ReadResult() const {
  if (!result_) co_return std::unexpected(NotKept());
  auto text = co_await ReadPart(*result_);
  co_return text;
}

void KeptOutputs::Discard() {
  discarded_ = true;
  parts_.clear();
  result_.reset();
  file_.Remove();
}

}  // namespace cella::server
