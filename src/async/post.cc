#include "async/post.h"

#include <boost/asio/post.hpp>

namespace cella::async {

void Post(Loop& loop, std::function<void()> work) { boost::asio::post(loop.context(), std::move(work)); }

}  // namespace cella::async
