#include "storage/spaces.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "async/caught.h"
#include "base/base64.h"
#include "calls/arguments.h"
#include "os/beneath.h"
#include "os/io.h"
#include "os/pending_file.h"
#include "storage/json.h"
#include "storage/names.h"

namespace cella::storage {
namespace {

using Json = nlohmann::ordered_json;
using calls::Arguments;
using calls::Value;

// Larger contents go through a file of the workspace.
constexpr uint64_t kInline = uint64_t{128} << 10;
constexpr size_t kChunk = size_t{1} << 20;
constexpr size_t kPage = 200;
// Copies of artifacts, for code that wants a path.
constexpr const char* kCopies = ".artifacts/";

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// A call on a thread of the pool.
class Work {
 public:
  Work(SessionStorage& session, std::optional<os::Directory> workspace, const run::HostCall& call)
      : session_(session), storage_(*session.storage), workspace_(std::move(workspace)), call_(call) {}

  Result<Json> Artifacts() {
    TRY(arguments_, calls::ParseArguments(call_.arguments));
    const std::string& operation = call_.operation;
    if (operation == "list") {
      TRY(const std::string after, Text(0, "after", ""));
      TRY(const ArtifactPage page, storage_.List(after, kPage));
      return ToJson(page);
    }
    TRY(const std::string name, Text(0, "name", std::nullopt));
    if (operation == "save") return Save(name);
    if (operation == "load") return Load(name, std::nullopt);
    if (operation == "path") return Path(name);
    if (operation == "get") {
      TRY(const auto artifact, storage_.Get(name));
      return artifact ? ToJson(*artifact) : Json(nullptr);
    }
    if (operation == "exists") {
      TRY(const auto artifact, storage_.Get(name));
      return Json(artifact.has_value());
    }
    if (operation == "delete") {
      TRY(const bool deleted, storage_.Delete(name));
      return Json(deleted);
    }
    return Err(ErrorCode::kInvalid, "there are save, load, list, get, exists, delete and path");
  }

  Result<Json> Workflows() {
    TRY(arguments_, calls::ParseArguments(call_.arguments));
    const std::string& operation = call_.operation;
    if (operation == "list") {
      TRY(const auto workflows, storage_.ListWorkflows());
      return ToJson(workflows);
    }
    if (operation == "search") {
      TRY(const std::string query, Text(0, "query", std::nullopt));
      const Value* limit = arguments_.Find(1, "limit");
      const size_t most = limit != nullptr && limit->is_number_unsigned() ? limit->get<size_t>() : 10;
      TRY(const auto workflows, storage_.SearchWorkflows(query, most));
      return ToJson(workflows);
    }
    TRY(const std::string name, Text(0, "name", std::nullopt));
    if (operation == "create") {
      TRY(const std::string source, Text(1, "source", std::nullopt));
      TRY(const std::string description, Text(2, "description", ""));
      TRY(Workflow workflow, storage_.CreateWorkflow(name, source, description, origin()));
      workflow.source.clear();
      return ToJson(workflow);
    }
    if (operation == "get") {
      TRY(const auto workflow, storage_.GetWorkflow(name));
      return workflow ? ToJson(*workflow) : Json(nullptr);
    }
    if (operation == "source") return Source(name);
    if (operation == "delete") {
      TRY(const bool deleted, storage_.DeleteWorkflow(name));
      return Json(deleted);
    }
    return Err(ErrorCode::kInvalid, "there are create, get, list, search, delete and invoke");
  }

 private:
  Origin origin() const { return session_.confined ? Origin::kJail : Origin::kCaller; }

  Result<std::string> Text(size_t position, const char* name, std::optional<std::string> otherwise) const {
    const Value* value = arguments_.Find(position, name);
    if (value == nullptr && otherwise) return std::move(*otherwise);
    if (value == nullptr) return Err(ErrorCode::kInvalid, "{} is needed", name);
    if (!value->is_string()) return Err(ErrorCode::kInvalid, "{}: must be text, not {}", name, value->type_name());
    return value->get<std::string>();
  }

  Result<Json> Save(const std::string& name) {
    FileStorage::Details details{.origin = origin()};
    TRY(const std::string kind, Text(1, "kind", std::nullopt));
    const auto parsed = ParseKind(kind);
    if (!parsed) return Err(ErrorCode::kInvalid, "kind: there are text, bytes and json");
    details.kind = *parsed;
    TRY(details.description, Text(SIZE_MAX, "description", ""));
    if (const Value* metadata = arguments_.Find(SIZE_MAX, "metadata"); metadata != nullptr && !metadata->is_null()) {
      details.metadata = metadata->dump(-1, ' ', false, Value::error_handler_t::replace);
    }
    TRY(auto upload, storage_.BeginSave(name));
    TRY_VOID(Fill(&upload, details.kind));
    TRY(const Artifact artifact, upload.Commit(details));
    return ToJson(artifact);
  }

  // From the call itself, or from a file of the workspace that the guest named.
  Status Fill(FileStorage::Upload* upload, Kind kind) const {
    if (arguments_.Find(SIZE_MAX, "file") == nullptr) {
      TRY(std::string data, Text(SIZE_MAX, "data", std::nullopt));
      if (kind == Kind::kBytes) {
        auto bytes = DecodeBase64Strictly(data);
        if (!bytes) return Err(ErrorCode::kInvalid, "data: base64 is expected");
        data = std::move(*bytes);
      }
      return upload->Write(data);
    }
    TRY(const std::string path, Text(SIZE_MAX, "file", std::nullopt));
    if (!workspace_) return Err(ErrorCode::kUnsupported, "this session has no files: save less than {} bytes", kInline);
    TRY(const UniqueFd file, workspace_->OpenFile(path));
    std::string buffer(kChunk, '\0');
    for (;;) {
      const ssize_t count = read(file.get(), buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return SysErr(errno, "read '{}'", Shown(path));
      if (count == 0) return {};
      TRY_VOID(upload->Write(std::string_view(buffer).substr(0, static_cast<size_t>(count))));
    }
  }

  // Inline, or as a file of the workspace: `copy`, else one that the guest takes away.
  Result<Json> Load(const std::string& name, const std::optional<std::string>& copy) {
    TRY(const LoadedArtifact loaded, storage_.Load(name));
    Json json = {{"kind", ToString(loaded.info.kind)}, {"size", loaded.info.size}};
    const uint64_t limit = storage_.bounds().artifact_bytes;
    if (!copy && loaded.info.size <= kInline) {
      TRY(std::string content, os::ReadFd(loaded.file.get(), kInline));
      json["data"] = loaded.info.kind == Kind::kBytes ? EncodeBase64(content) : std::move(content);
      return json;
    }
    if (!workspace_) return Err(ErrorCode::kUnsupported, "'{}' is too large for a session without files", Shown(name));
    const std::string path = copy.value_or(os::NewPartName());
    TRY(os::PendingFile file, workspace_->CreatePending(path, 0600));
    std::string buffer(kChunk, '\0');
    for (uint64_t sent = 0;;) {
      const ssize_t count = read(loaded.file.get(), buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return SysErr(errno, "read '{}'", Shown(name));
      if (count == 0) break;
      sent += static_cast<uint64_t>(count);
      if (sent > limit) return Err(ErrorCode::kExhausted, "'{}' has more than {} bytes", Shown(name), limit);
      TRY_VOID(file.Write(std::string_view(buffer).substr(0, static_cast<size_t>(count))));
    }
    TRY_VOID(file.Commit(os::Directory::IfExists::kReplace));
    json["file"] = path;
    return json;
  }

  Result<Json> Path(const std::string& name) {
    if (session_.confined) return Load(name, kCopies + name);
    TRY(const std::string path, storage_.PathOf(name));
    return Json{{"path", path}};
  }

  // To be run: a guest without a jail gets only what a person has approved.
  Result<Json> Source(const std::string& name) {
    TRY(const auto workflow, storage_.GetWorkflow(name));
    if (!workflow) {
      TRY(const auto all, storage_.ListWorkflows());
      std::string names;
      for (const Workflow& each : all.found) {
        if (names.size() < kChunk / 512) names += (names.empty() ? "" : ", ") + each.name;
      }
      return Err(ErrorCode::kNotFound, "there is no workflow '{}'; there {}", Shown(name),
                 names.empty() ? "are none" : "are: " + names);
    }
    if (!session_.confined && !workflow->approved) {
      return Err(ErrorCode::kPermission,
                 "code in a jail saved the workflow '{}', and it was not approved to run without one: read it, then "
                 "'cella workflows approve {} --storage DIR'",
                 name, name);
    }
    return Json{{"name", workflow->name}, {"source", workflow->source}};
  }

  SessionStorage& session_;
  FileStorage& storage_;
  std::optional<os::Directory> workspace_;
  const run::HostCall& call_;
  Arguments arguments_;
};

run::HostReply Failed(const run::HostCall& call, const Error& error, const char* type) {
  return {.id = 0,
          .value = {},
          .error = run::HostError{type, fmt::format("{}.{}: {}", call.space, call.operation, error.message)}};
}

async::Task<run::HostReply> ServeOnPool(std::shared_ptr<SessionStorage> session, const run::HostCall& call,
                                        Result<Json> (Work::*perform)(), const char* type, const char* not_found) {
  std::optional<os::Directory> workspace;
  if (const os::Directory* theirs = session->workspace ? session->workspace() : nullptr; theirs != nullptr) {
    auto own = theirs->Duplicate();
    if (!own) co_return Failed(call, own.error(), type);
    workspace.emplace(std::move(*own));
  }
  Work work(*session, std::move(workspace), call);
  auto run = [&]() -> Result<std::string> {
    TRY(const Json json, (work.*perform)());
    return Dump(json);
  };
  auto answer = co_await session->service.pool().Run(run);
  if (!answer) {
    co_return Failed(call, answer.error(), answer.error().code == ErrorCode::kNotFound ? not_found : type);
  }
  run::HostReply reply;
  reply.value = std::move(*answer);
  co_return reply;
}

}  // namespace

void AddSpaces(const std::shared_ptr<SessionStorage>& session, Spaces* spaces) {
  (*spaces)[kArtifactsSpace] = std::make_shared<ArtifactSpace>(session);
  (*spaces)[kWorkflowsSpace] = std::make_shared<WorkflowSpace>(session);
}

async::Task<run::HostReply> ArtifactSpace::Serve(run::HostCall call) {
  auto reply = co_await ServeOnPool(session_, call, &Work::Artifacts, "ArtifactError", "ArtifactNotFoundError");
  co_return reply;
}

async::Task<run::HostReply> WorkflowSpace::Serve(run::HostCall call) {
  auto reply = co_await ServeOnPool(session_, call, &Work::Workflows, "WorkflowError", "WorkflowError");
  co_return reply;
}

}  // namespace cella::storage
