// The namespaces `artifacts` and `workflows` of one session (runners/README.md). Arguments come from the guest. Lives
// on the loop; files are read and written on the service's threads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "os/directory.h"
#include "run/host_calls.h"
#include "storage/service.h"
#include "storage/uploads.h"

namespace cella::storage {

inline constexpr const char* kArtifactsSpace = "artifacts";
inline constexpr const char* kWorkflowsSpace = "workflows";

// What both know of their session.
struct SessionStorage {
  Service& service;
  std::shared_ptr<FileStorage> storage;
  bool confined = true;  // what it saves is a jail's, and it may run what is not approved
  // Its files; null: none, or the session is not there yet. Set when the session exists.
  std::function<const os::Directory*()> workspace{};
  // Where there is no workspace. Declared after the storage, which must outlive them.
  std::shared_ptr<Uploads> uploads = std::make_shared<Uploads>();
};

class ArtifactSpace : public run::HostCallHandler {
 public:
  explicit ArtifactSpace(std::shared_ptr<SessionStorage> session) : session_(std::move(session)) {}
  async::Task<run::HostReply> Serve(run::HostCall call) override;

 private:
  std::shared_ptr<SessionStorage> session_;
};

class WorkflowSpace : public run::HostCallHandler {
 public:
  explicit WorkflowSpace(std::shared_ptr<SessionStorage> session) : session_(std::move(session)) {}
  async::Task<run::HostReply> Serve(run::HostCall call) override;

 private:
  std::shared_ptr<SessionStorage> session_;
};

using Spaces = std::map<std::string, std::shared_ptr<run::HostCallHandler>>;
void AddSpaces(const std::shared_ptr<SessionStorage>& session, Spaces* spaces);

// Where in the workspace code finds a copy of an artifact.
std::string CopyOf(const std::string& name);
// Makes it, or makes it anew, and returns its path there. Blocks.
Result<std::string> CopyIntoWorkspace(FileStorage& storage, const os::Directory& workspace, const std::string& name);

}  // namespace cella::storage
