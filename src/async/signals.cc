#include "async/signals.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>

namespace cella::async {

namespace asio = boost::asio;

StopSignals::StopSignals(Loop& loop) : signals_(loop.context(), SIGINT, SIGTERM, SIGHUP) {}

Task<std::optional<int>> StopSignals::Wait() {
  co_await asio::this_coro::throw_if_cancelled(false);
  boost::system::error_code error;
  int signal = co_await signals_.async_wait(asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return std::nullopt;
  boost::system::error_code ignored;
  signals_.remove(signal, ignored);
  co_return signal;
}

}  // namespace cella::async
