// Feeds bytes through a whole connection of the HTTP server, as a client that sends them and ends its side. Aborts when
// something reaches the handler that must not.
#pragma once

#include <string_view>

namespace cella::http {

void FeedConnection(std::string_view bytes);

}  // namespace cella::http
