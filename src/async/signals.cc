#include "async/signals.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <initializer_list>

namespace cella::async {

namespace asio = boost::asio;

StopSignals::StopSignals(Loop& loop, std::initializer_list<int> signals) : signals_(loop.context()) {
  for (int signal : signals) {
    // What we inherited as ignored (nohup) stays so.
    struct sigaction current = {};
    if (sigaction(signal, nullptr, &current) == 0 && current.sa_handler == SIG_IGN) continue;
    boost::system::error_code ignored;
    signals_.add(signal, ignored);
  }
}

Task<std::optional<int>> StopSignals::Next() {
  co_await asio::this_coro::throw_if_cancelled(false);
  boost::system::error_code error;
  int signal = co_await signals_.async_wait(asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return std::nullopt;
  co_return signal;
}

Task<std::optional<int>> StopSignals::Wait() {
  auto signal = co_await Next();
  boost::system::error_code ignored;
  if (signal) signals_.remove(*signal, ignored);
  co_return signal;
}

}  // namespace cella::async
