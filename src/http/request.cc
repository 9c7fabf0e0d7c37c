#include "http/request.h"

namespace cella::http {
namespace {

constexpr size_t kKeptHead = 2048;

}  // namespace

Status Request::Parse(std::string_view head) {
  head_.assign(head);
  expects_continue_ = false;
  TRY_VOID(parser_.ParseHead(head_));
  TRY_VOID(target_.Parse(parser_.target()));

  int hosts = 0;
  for (const Header& header : headers()) {
    if (EqualsIgnoringCase(header.name, "host")) ++hosts;
    if (EqualsIgnoringCase(header.name, "expect")) {
      if (!EqualsIgnoringCase(header.value, "100-continue")) {
        return Err(ErrorCode::kUnsupported, "an Expect other than 100-continue");
      }
      // A client of HTTP/1.0 does not know the interim answer.
      expects_continue_ = !is_http_1_0();
    }
  }
  if (hosts > 1) return Err(ErrorCode::kInvalid, "more than one Host");
  if (hosts == 0 && !is_http_1_0()) return Err(ErrorCode::kInvalid, "HTTP/1.1 without Host");
  return {};
}

void Request::Shrink() {
  if (head_.capacity() > kKeptHead) std::string().swap(head_);
}

}  // namespace cella::http
