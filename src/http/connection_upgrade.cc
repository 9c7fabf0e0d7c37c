#include "http/connection.h"

namespace cella::http {

async::Task<Result<std::unique_ptr<WebSocket>>> Connection::UpgradeToWebSocket(WebSocketOptions) {
  (void)co_await SendError(501, "unsupported", "no WebSocket yet");
  co_return Err(ErrorCode::kUnsupported, "no WebSocket yet");
}

}  // namespace cella::http
