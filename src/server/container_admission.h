// What clients may ask of containers. The socket of a container engine is as powerful as root, so everything that
// reaches beyond one confined container is the operator's: [container] names it, or `whole_machine` allows it all.
#pragma once

#include <functional>
#include <string_view>

#include "cella/policy.h"
#include "server/api_error.h"
#include "server/config.h"

namespace cella::server {

// Whether the client gave this key ("container.image", "venv").
using IsGiven = std::function<bool(std::string_view key)>;

// Of a session of the container executor: completes `policy`, which has the operator's defaults and the other keys of
// the client. 403: a key that only the operator may set; 400: one without meaning in a container.
Answer<void> AdmitContainer(const ContainerPolicy& asked, const IsGiven& given, const Config& config, Policy* policy);

}  // namespace cella::server
