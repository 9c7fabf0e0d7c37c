#include "async/notifier.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace cella::async {

namespace asio = boost::asio;

Task<bool> Notifier::Wait() {
  co_await asio::this_coro::throw_if_cancelled(false);
  if (!notified_) {
    boost::system::error_code error;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
  co_return std::exchange(notified_, false);
}

}  // namespace cella::async
