// From HTTP to WebSocket: the handshake of RFC 6455, section 4.2.
#include "http/connection.h"
#include "http/websocket_connection.h"

namespace cella::http {

using async::Task;

namespace {

// Whether a list of tokens, as in "Upgrade: a, b", has this one.
bool HasToken(std::string_view list, std::string_view token) {
  while (!list.empty()) {
    size_t comma = list.find(',');
    std::string_view one = list.substr(0, comma);
    list.remove_prefix(comma == list.npos ? list.size() : comma + 1);
    while (one.starts_with(' ') || one.starts_with('\t')) one.remove_prefix(1);
    while (one.ends_with(' ') || one.ends_with('\t')) one.remove_suffix(1);
    if (EqualsIgnoringCase(one, token)) return true;
  }
  return false;
}

}  // namespace

Task<Result<std::unique_ptr<WebSocket>>> Connection::UpgradeToWebSocket(WebSocketOptions options) {
  if (answer_ != Answer::kNone) co_return Err(ErrorCode::kInvalid, "the request was answered before");
  const Request& request = request_;
  const bool asks = request.method() == "GET" && !request.is_http_1_0() && request.parser().wants_upgrade() &&
                    HasToken(request.header("upgrade").value_or(""), "websocket") && request.parser().is_done();
  if (!asks) {
    (void)co_await Send(426, {{"Upgrade", "websocket"}, {"Content-Type", "application/json"}},
                        ErrorBody("upgrade_required", "this is for WebSocket clients"));
    co_return Err(ErrorCode::kInvalid, "the request asks for no WebSocket");
  }
  if (request.header("sec-websocket-version").value_or("") != "13") {
    (void)co_await Send(426, {{"Sec-WebSocket-Version", "13"}, {"Content-Type", "application/json"}},
                        ErrorBody("upgrade_required", "only version 13 of the WebSocket protocol is known"));
    co_return Err(ErrorCode::kInvalid, "an unknown version of the WebSocket protocol");
  }
  auto accept = AcceptKey(request.header("sec-websocket-key").value_or(""));
  if (!accept) {
    (void)co_await SendError(400, "bad_request", "Sec-WebSocket-Key is not 16 bytes in base64");
    co_return Err(ErrorCode::kInvalid, "a bad Sec-WebSocket-Key");
  }

  std::vector<Header> headers = {
      {"Upgrade", "websocket"}, {"Connection", "Upgrade"}, {"Sec-WebSocket-Accept", *accept}};
  const auto offered = request.header("sec-websocket-protocol").value_or("");
  if (!options.protocol.empty() && HasToken(offered, options.protocol)) {
    headers.push_back({"Sec-WebSocket-Protocol", options.protocol});
  }
  FormatHead({.status = 101, .headers = headers}, {}, out_);
  answer_ = Answer::kUpgraded;
  must_close_ = true;  // no HTTP follows, and a goodbye must not be overtaken by a reset
  Status written = co_await WriteParts({out_, {}, {}});
  CO_TRY_VOID(written);
  co_return std::make_unique<WebSocketConnection>(context_.loop, *stream_, input_, context_.limits, context_.bodies,
                                                  options.max_message);
}

}  // namespace cella::http
