#include "async/event.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace cella::async {

namespace asio = boost::asio;

Task<bool> Event::Wait() {
  if (set_) co_return true;
  co_await asio::this_coro::throw_if_cancelled(false);
  boost::system::error_code error;
  co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, error));
  co_return set_;
}

}  // namespace cella::async
