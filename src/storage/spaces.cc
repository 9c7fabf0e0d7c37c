#include "storage/spaces.h"

#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "async/caught.h"
#include "base/base64.h"
#include "calls/arguments.h"
#include "os/beneath.h"
#include "os/io.h"
#include "os/pending_file.h"
#include "os/syscalls.h"
#include "storage/json.h"
#include "storage/names.h"

namespace cella::storage {
namespace {

using Json = nlohmann::ordered_json;
using calls::Arguments;
using calls::Value;

// Larger contents go through a file of the workspace; where the host does not see it, in parts.
constexpr uint64_t kInline = uint64_t{128} << 10;
constexpr size_t kPart = size_t{512} << 10;  // in base64 less than a call may have
constexpr size_t kChunk = size_t{1} << 20;
constexpr size_t kPage = 200;

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Status CopyOut(const LoadedArtifact& loaded, const os::Directory& workspace, const std::string& path, uint64_t limit) {
  TRY(os::PendingFile file, workspace.CreatePending(path, 0600));
  std::string buffer(kChunk, '\0');
  for (uint64_t sent = 0;;) {
    const ssize_t count = read(loaded.file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SysErr(errno, "read '{}'", Shown(loaded.info.name));
    if (count == 0) break;
    sent += static_cast<uint64_t>(count);
    if (sent > limit) return Err(ErrorCode::kExhausted, "'{}' has more than {} bytes", Shown(loaded.info.name), limit);
    TRY_VOID(file.Write(std::string_view(buffer).substr(0, static_cast<size_t>(count))));
  }
  return file.Commit(os::Directory::IfExists::kReplace);
}

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
    if (operation == "append") return Append();
    TRY(const std::string name, Text(0, "name", std::nullopt));
    if (operation == "save") return Save(name);
    if (operation == "begin") return Begin(name);
    if (operation == "load") return Load(name, std::nullopt);
    if (operation == "part") return Part(name);
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

  Result<uint64_t> Number(size_t position, const char* name) const {
    const Value* value = arguments_.Find(position, name);
    if (value == nullptr || !value->is_number_unsigned()) return Err(ErrorCode::kInvalid, "{}: must be a number", name);
    return value->get<uint64_t>();
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
    if (arguments_.Find(SIZE_MAX, "upload") != nullptr) {
      TRY(const uint64_t id, Number(SIZE_MAX, "upload"));
      TRY(auto upload, session_.uploads->Take(id));
      if (upload.name() != name) return Err(ErrorCode::kInvalid, "upload: it is one of '{}'", Shown(upload.name()));
      TRY(const Artifact artifact, upload.Commit(details));
      return ToJson(artifact);
    }
    TRY(auto upload, storage_.BeginSave(name));
    TRY_VOID(Fill(&upload, details.kind));
    TRY(const Artifact artifact, upload.Commit(details));
    return ToJson(artifact);
  }

  // How a large content is handed over.
  Result<Json> Begin(const std::string& name) {
    if (workspace_) return Json{{"file", true}};
    TRY(auto upload, storage_.BeginSave(name));
    return Json{{"upload", session_.uploads->Add(std::move(upload))}};
  }

  Result<Json> Append() {
    TRY(const uint64_t id, Number(0, "upload"));
    TRY(const std::string data, Text(1, "data", std::nullopt));
    const auto bytes = DecodeBase64Strictly(data);
    if (!bytes) return Err(ErrorCode::kInvalid, "data: base64 is expected");
    TRY_VOID(session_.uploads->Append(id, *bytes));
    return Json(nullptr);
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
    if (!workspace_) return Err(ErrorCode::kUnsupported, "file: the host does not see the files of this session");
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

  // A part of a content that is too large for one call. Another version: it was replaced meanwhile.
  Result<Json> Part(const std::string& name) {
    TRY(const uint64_t offset, Number(1, "offset"));
    TRY(const std::string version, Text(2, "version", std::nullopt));
    TRY(const LoadedArtifact loaded, storage_.Load(name));
    TRY(const std::string now, Version(loaded));
    if (now != version) return Json{{"version", now}};
    std::string bytes(kPart, '\0');
    const ssize_t count = os::RetryOnEintr(
        [&] { return pread(loaded.file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
    if (count < 0) return SysErr(errno, "read '{}'", Shown(name));
    bytes.resize(static_cast<size_t>(count));
    return Json{{"version", now}, {"data", EncodeBase64(bytes)}};
  }

  static Result<std::string> Version(const LoadedArtifact& loaded) {
    struct stat info = {};
    if (fstat(loaded.file.get(), &info) < 0) return SysErr(errno, "stat '{}'", Shown(loaded.info.name));
    return fmt::format("{}-{}-{}.{}", info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  }

  // Inline, or as a file of the workspace: `copy`, else one that the guest takes away; or in parts.
  Result<Json> Load(const std::string& name, const std::optional<std::string>& copy) {
    TRY(const LoadedArtifact loaded, storage_.Load(name));
    Json json = {{"kind", ToString(loaded.info.kind)}, {"size", loaded.info.size}};
    if (!copy && loaded.info.size <= kInline) {
      TRY(std::string content, os::ReadFd(loaded.file.get(), kInline));
      json["data"] = loaded.info.kind == Kind::kBytes ? EncodeBase64(content) : std::move(content);
      return json;
    }
    if (!workspace_) {
      TRY(json["version"], Version(loaded));
      return json;
    }
    const std::string path = copy.value_or(os::NewPartName());
    TRY_VOID(CopyOut(loaded, *workspace_, path, storage_.bounds().artifact_bytes));
    json["file"] = path;
    return json;
  }

  Result<Json> Path(const std::string& name) {
    if (session_.confined) return Load(name, CopyOf(name));
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
  auto answer = co_await session->service.Run(*session->storage, run);
  if (!answer) {
    answer.error().message = WithoutPath(std::move(answer.error().message), session->storage->path());
    co_return Failed(call, answer.error(), answer.error().code == ErrorCode::kNotFound ? not_found : type);
  }
  run::HostReply reply;
  reply.value = std::move(*answer);
  co_return reply;
}

}  // namespace

std::string CopyOf(const std::string& name) { return ".artifacts/" + name; }

Result<std::string> CopyIntoWorkspace(FileStorage& storage, const os::Directory& workspace, const std::string& name) {
  TRY(const LoadedArtifact loaded, storage.Load(name));
  TRY_VOID(CopyOut(loaded, workspace, CopyOf(name), storage.bounds().artifact_bytes));
  return CopyOf(name);
}

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
