// Writes the flat blocks of jail/spec.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "jail/spec.h"

namespace cella::confine {

class JailSpecBuilder {
 public:
  JailSpecBuilder();

  // Scalars are set directly.
  jail::JailSpec& spec() { return spec_; }

  void SetHostname(std::string_view name) { spec_.hostname = AddString(name); }
  void SetRootfs(std::string_view path) { spec_.rootfs = AddString(path); }
  Status AddMount(std::string_view source, std::string_view target, uint32_t flags);
  Status AddLink(std::string_view target, std::string_view path);
  Status AddFile(std::string_view path, std::string_view data);

  // The finished block in a memfd.
  Result<UniqueFd> Finish();

 private:
  jail::StringRef AddString(std::string_view text);

  jail::JailSpec spec_ = {};
  std::string strings_;
};

struct ExecRequest {
  std::string program;
  std::vector<std::string> argv;
  std::vector<std::string> env;  // "K=V"
  std::string search_path;
  std::string cwd;
  jail::ProcessLimits limits = {};
  bool kill_rest = true;
};

Result<UniqueFd> EncodeExec(const ExecRequest& request);

}  // namespace cella::confine
