#include "server/hub.h"

#include "engine/engine.h"

namespace cella::server {

Engines::Engines() = default;
Engines::~Engines() = default;

}  // namespace cella::server
