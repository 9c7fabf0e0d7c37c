#include "http/exchange.h"

#include "http/response_head.h"

namespace cella::http {

bool Handler::AcceptsEscapedSlash(const Request&) const { return false; }

async::Task<Status> Exchange::SendError(int status, std::string_view code, std::string_view message,
                                        std::string_view hint) {
  const std::string body = ErrorBody(code, message, hint);
  Status sent = co_await SendJson(status, body);
  co_return sent;
}

async::Task<Status> Exchange::SendJson(int status, std::string_view json) {
  Status sent = co_await Send(status, {{"Content-Type", "application/json"}}, json);
  co_return sent;
}

}  // namespace cella::http
