#include "jupyter/message_store.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>

namespace cella::jupyter {
namespace {

size_t SizeOf(const zmtp::Message& message) {
  size_t size = sizeof message;
  for (const std::string& part : message.parts) size += sizeof part + part.size();
  return size;
}

void AppendNumber(std::string& out, uint64_t number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

// The number of parts, the skipped bytes, the sizes; then the parts.
std::string Encode(const zmtp::Message& message) {
  std::string bytes;
  AppendNumber(bytes, message.parts.size());
  AppendNumber(bytes, message.skipped);
  for (const std::string& part : message.parts) AppendNumber(bytes, part.size());
  for (const std::string& part : message.parts) bytes += part;
  return bytes;
}

bool ReadAt(int fd, uint64_t at, char* buffer, size_t size) {
  while (size > 0) {
    const ssize_t n = pread(fd, buffer, size, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    buffer += n;
    at += static_cast<uint64_t>(n);
    size -= static_cast<size_t>(n);
  }
  return true;
}

bool WriteAt(int fd, uint64_t at, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += static_cast<uint64_t>(n);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

UniqueFd OpenNameless(const std::string& directory) {
  UniqueFd file(open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file) return file;
  std::string path = directory + "/messages-XXXXXX";
  file.Reset(mkostemp(path.data(), O_CLOEXEC));
  if (file) (void)unlink(path.c_str());
  return file;
}

}  // namespace

void MessageStore::Push(zmtp::Message message) {
  const size_t size = SizeOf(message);
  const bool in_order = read_at_ == write_at_;
  // One message is always kept, however large.
  const bool fits = memory_.empty() || (memory_bytes_ + size <= bounds_.memory && memory_.size() < bounds_.messages);
  if (in_order && fits) {
    memory_bytes_ += size;
    memory_.push_back(std::move(message));
  } else if (!Spill(message)) {
    ++dropped_;
  }
}

bool MessageStore::Spill(const zmtp::Message& message) {
  const std::string bytes = Encode(message);
  if (read_at_ == write_at_) read_at_ = write_at_ = 0;
  if (write_at_ + bytes.size() > bounds_.file) return false;
  if (!file_) file_ = OpenNameless(directory_);
  if (!file_ || !WriteAt(file_.get(), write_at_, bytes)) return false;
  write_at_ += bytes.size();
  return true;
}

std::optional<zmtp::Message> MessageStore::TakeSpilled() {
  zmtp::Message message;
  uint64_t head[2];
  if (!ReadAt(file_.get(), read_at_, reinterpret_cast<char*>(head), sizeof head)) return std::nullopt;
  std::vector<uint64_t> sizes(head[0]);
  uint64_t at = read_at_ + sizeof head;
  if (!ReadAt(file_.get(), at, reinterpret_cast<char*>(sizes.data()), sizes.size() * sizeof(uint64_t))) {
    return std::nullopt;
  }
  at += sizes.size() * sizeof(uint64_t);
  message.skipped = head[1];
  for (uint64_t size : sizes) {
    std::string part(size, '\0');
    if (!ReadAt(file_.get(), at, part.data(), part.size())) return std::nullopt;
    at += size;
    message.parts.push_back(std::move(part));
  }
  read_at_ = at;
  return message;
}

std::optional<zmtp::Message> MessageStore::Take() {
  if (!memory_.empty()) {
    zmtp::Message message = std::move(memory_.front());
    memory_.pop_front();
    memory_bytes_ -= SizeOf(message);
    return message;
  }
  if (read_at_ == write_at_) return std::nullopt;
  auto message = TakeSpilled();
  if (!message) {
    // The disk does not give back what it took.
    ++dropped_;
    read_at_ = write_at_;
  }
  if (read_at_ == write_at_) {
    read_at_ = write_at_ = 0;
    (void)!ftruncate(file_.get(), 0);
  }
  return message;
}

void MessageStore::Clear() {
  memory_.clear();
  memory_bytes_ = 0;
  read_at_ = write_at_ = 0;
  dropped_ = 0;
  file_.Reset();
}

}  // namespace cella::jupyter
