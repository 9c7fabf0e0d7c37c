#include "jupyter/message.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/sha256.h"
#include "jupyter/json.h"

namespace cella::jupyter {
namespace {

constexpr std::string_view kDelimiter = "<IDS|MSG>";
constexpr size_t kMaxHeader = 65536;
constexpr size_t kMaxRouting = 8;

// ISO 8601 with microseconds and zone, as jupyter_client parses it.
std::string Now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now);
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now - seconds);
  const time_t when = seconds.count();
  tm parts = {};
  (void)gmtime_r(&when, &parts);
  std::array<char, 32> text{};
  const size_t size = strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:06}Z", std::string_view(text.data(), size), micros.count());
}

// The time does not depend on where the first difference is.
bool IsSame(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace

std::string Signer::Sign(std::string_view header, std::string_view parent, std::string_view metadata,
                         std::string_view content) const {
  if (key_.empty()) return {};
  const std::array<std::string_view, 4> pieces = {header, parent, metadata, content};
  return ToHex(HmacSha256(key_, pieces));
}

Signer::Outgoing Signer::Assemble(std::string_view type, std::string content, std::string parent_header) {
  Outgoing out;
  out.id = fmt::format("{}_{}", session_, ++sent_);
  std::string header = Dump({{"msg_id", out.id},
                             {"session", session_},
                             {"username", user_},
                             {"date", Now()},
                             {"msg_type", type},
                             {"version", "5.3"}});
  std::string metadata = "{}";
  std::string signature = Sign(header, parent_header, metadata, content);
  out.parts = {std::string(kDelimiter),  std::move(signature), std::move(header),
               std::move(parent_header), std::move(metadata),  std::move(content)};
  return out;
}

Signer::Outgoing Signer::Make(std::string_view type, std::string content) {
  return Assemble(type, std::move(content), "{}");
}

Signer::Outgoing Signer::MakeReply(std::string_view type, std::string content, const Message& parent) {
  return Assemble(type, std::move(content), Dump({{"msg_id", parent.id}, {"msg_type", parent.type}}));
}

Result<Message> Signer::Read(const zmtp::Message& message) const {
  const auto& parts = message.parts;
  const auto end = parts.begin() + static_cast<ptrdiff_t>(std::min(parts.size(), kMaxRouting));
  const auto delimiter = std::find(parts.begin(), end, kDelimiter);
  if (delimiter == end || parts.end() - delimiter < 6) return Err(ErrorCode::kInvalid, "no message of Jupyter");
  const std::string &signature = delimiter[1], &header = delimiter[2], &parent = delimiter[3], &metadata = delimiter[4],
                    &content = delimiter[5];
  if (header.size() > kMaxHeader || parent.size() > kMaxHeader) {
    return Err(ErrorCode::kInvalid, "a header of {} bytes", std::max(header.size(), parent.size()));
  }
  const bool is_whole = message.skipped == 0 || !content.empty();
  if (is_whole && !IsSame(signature, Sign(header, parent, metadata, content))) {
    return Err(ErrorCode::kInvalid, "a message with a wrong signature");
  }
  const auto head = ParseObject(header);
  if (!head) return Err(ErrorCode::kInvalid, "a message whose header is no JSON object");
  Message read;
  read.id = Text(*head, "msg_id");
  read.type = Text(*head, "msg_type");
  if (const auto before = ParseObject(parent)) {
    read.parent_id = Text(*before, "msg_id");
    read.parent_type = Text(*before, "msg_type");
  }
  read.metadata = metadata;
  read.content = content;
  if (!is_whole) read.skipped = message.skipped;
  return read;
}

}  // namespace cella::jupyter
