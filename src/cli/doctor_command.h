// `cella doctor`: what this machine can enforce, and how to fix what it can't.
#pragma once

#include <string>

namespace cella::cli {

struct DoctorOptions {
  bool json = false;
  std::string version;  // of cella
};

// The exit status: 0 when the sandbox can run, else 1.
int DoctorCommand(const DoctorOptions& options);

}  // namespace cella::cli
