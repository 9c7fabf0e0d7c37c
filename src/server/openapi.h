// The API as an OpenAPI 3.1 document. Made from the table of routes, so that it cannot leave one out.
#pragma once

#include <string>

#include "cella/policy.h"
#include "server/router.h"

namespace cella::server {

// `maxima`: the bounds of a policy.
std::string DescribeApi(const Router& router, const SessionSpec& maxima);

}  // namespace cella::server
