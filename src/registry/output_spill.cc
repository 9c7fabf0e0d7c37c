#include "registry/output_spill.h"

#include <algorithm>

namespace cella::registry {
namespace {

constexpr size_t kBatch = size_t{16} << 10;

}  // namespace

void OutputSpill::Append(std::string_view bytes) {
  total_ += bytes.size();
  if (full_) return;
  if (bytes.size() > bound_ - kept()) {
    bytes = bytes.substr(0, static_cast<size_t>(bound_ - kept()));
    full_ = true;
  }
  if (pending_.size() + bytes.size() <= kBatch) {
    pending_ += bytes;
  } else {
    Flush(bytes);
  }
}

void OutputSpill::Flush(std::string_view more) {
  // What is already kept stays readable when the disk is full.
  if (!file_.Append(pending_)) {
    full_ = true;
    pending_ += more.substr(0, kBatch - std::min(kBatch, pending_.size()));
    return;
  }
  pending_.clear();
  if (!file_.Append(more)) {
    full_ = true;
    pending_ = more.substr(0, kBatch);
  }
}

void OutputSpill::Settle() {
  Flush("");
  pending_.shrink_to_fit();
}

void OutputSpill::Discard() {
  file_.Remove();
  std::string().swap(pending_);  // assigning an empty one would keep the memory
  full_ = true;
}

Result<std::string> OutputSpill::Read(uint64_t offset, size_t at_most) const {
  if (offset > total_) {
    return Err(ErrorCode::kInvalid, "the output has {} bytes; none at offset {}", total_, offset);
  }
  std::string page;
  if (offset < file_.size()) {
    page.resize(static_cast<size_t>(std::min<uint64_t>(at_most, file_.size() - offset)));
    TRY(size_t n, file_.ReadAt(offset, page));
    page.resize(n);
    offset += n;
    at_most -= n;
  }
  if (offset >= file_.size() && offset < kept()) page += pending_.substr(offset - file_.size(), at_most);
  return page;
}

}  // namespace cella::registry
