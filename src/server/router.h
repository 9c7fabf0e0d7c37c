// The table of routes: which operation answers which request, and how the description of the API words it. Filled
// once at the start, read-only afterwards.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "async/task.h"
#include "http/exchange.h"

namespace cella::server {

// One request, on its way through an operation.
struct Call {
  http::Exchange& exchange;
  std::string client;                        // who asks; empty for open routes
  std::vector<std::string_view> parameters;  // what stood at the pattern's {names}, in order
  size_t rest = 0;                           // the segment where a pattern's {name...} begins
};

using Operation = std::function<async::Task<void>(Call&)>;

enum class Access {
  kOpen,    // every peer that reaches the server
  kClient,  // a client that Clients knows
};

struct Route {
  std::string_view method;
  std::string_view pattern;  // "/v1/sessions/{id}/files/{path...}"
  std::string_view summary;
  Access access = Access::kClient;
  Operation operation;
};

class Router {
 public:
  void Add(Route route);
  std::span<const Route> routes() const { return routes_; }

  struct Match {
    const Route* route = nullptr;
    std::vector<std::string_view> parameters;
    size_t rest = 0;
    std::string allow;  // without a route: the methods that the path has; empty: it has none, there is no such path
  };
  Match Find(std::string_view method, std::span<const std::string_view> segments) const;

 private:
  std::vector<Route> routes_;
  std::vector<std::vector<std::string_view>> patterns_;  // split, one for each route
};

}  // namespace cella::server
