// The API as an OpenAPI 3.1 document. Made from the table of routes, so that it cannot leave one out.
#pragma once

#include <string>

#include "server/router.h"

namespace cella::server {

std::string DescribeApi(const Router& router);

}  // namespace cella::server
