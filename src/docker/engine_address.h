// Which engine to talk to, and how. Values; nothing is connected.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "http/client.h"

namespace cella::docker {

struct EngineAddress {
  http::Url url;
  std::string ca_file;         // of a TLS engine
  http::TlsFiles certificate;  // the client's
  std::string source;          // who chose it, for messages: "--engine", "DOCKER_HOST", "the usual socket"
};

// The environment variables that matter, and the user; from the process, or from a test.
struct EngineSurroundings {
  std::function<std::string(const char* name)> variable;  // empty: not set
  std::function<bool(const std::string& path)> is_socket;
  unsigned uid = 0;

  static EngineSurroundings FromProcess();
};

// `named` if it is not empty, else DOCKER_HOST, else the usual sockets of Docker and Podman (the system's, then the
// user's) that exist. kNotFound: there is none; the message lists where it was looked for, and what to do.
Result<EngineAddress> FindEngine(const std::string& named, const EngineSurroundings& surroundings);

}  // namespace cella::docker
