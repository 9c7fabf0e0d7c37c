// The files of a session: up, down by ranges, lists, removal, and whole trees as tar archives.
#include <charconv>
#include <nlohmann/json.hpp>

#include "policy/names.h"
#include "server/answer.h"
#include "server/hosted_sessions.h"
#include "server/operations.h"
#include "workspace/archive.h"
#include "workspace/files.h"

namespace cella::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kChunk = size_t{64} << 10;

constexpr std::string_view kWorkspace = "/workspace";
constexpr std::string_view kTemporary = "/tmp";

bool IsBelow(std::string_view path, std::string_view place) {
  return path.starts_with(place) && (path.size() == place.size() || path[place.size()] == '/');
}

// A directory that the guest writes to, under a descriptor of our own, so that a session that ends meanwhile takes
// nothing away; and a path in it.
struct Place {
  workspace::WorkspaceFiles files;
  std::string path;
  std::string shown;  // for the client: relative to the workspace, or absolute
};

// Paths are relative to the workspace, or as the code in a jail or container has them: /workspace/x, /tmp/x.
Answer<Place> PlaceOf(const Hub& hub, const Call& call, std::string path) {
  auto session = hub.sessions.Find(call.parameters[0], call.client);
  if (!session) return std::unexpected(std::move(session.error()));
  const session::Session& engine = (*session)->engine();
  const os::Directory* workspace = engine.workspace();
  if (workspace == nullptr) return Conflict("this session has no files");
  // Only in a jail is the workspace a mount beside /tmp; elsewhere /tmp is the host's.
  const bool in_temporary = IsBelow(path, kTemporary) && engine.isolation().executor == "sandbox";
  auto own = in_temporary ? workspace->OpenMountBeside("tmp") : workspace->Duplicate();
  if (!own) return Refused(own.error());
  const std::string_view place = in_temporary ? kTemporary : kWorkspace;
  if (IsBelow(path, place)) path.erase(0, std::min(place.size() + 1, path.size()));
  std::string shown = in_temporary ? fmt::format("{}/{}", place, path) : path;
  return Place{workspace::WorkspaceFiles(std::move(*own), place), std::move(path), std::move(shown)};
}

Json Describe(const workspace::FileEntry& entry) {
  Json json = {{"name", entry.name}, {"type", workspace::ToString(entry.info.type)}, {"size", entry.info.size}};
  if (!entry.media_type.empty()) json["media_type"] = entry.media_type;
  return json;
}

// Of the request's path, below its `base`: a path in a target cannot be absolute.
Answer<Place> PlaceOf(const Hub& hub, const Call& call) {
  std::string path = call.exchange.request().target().Rest(call.rest);
  const std::string_view base = call.exchange.request().parameter("base").value_or(kWorkspace);
  if (base != kWorkspace && base != kTemporary)
    return Invalid(fmt::format("base: must be /workspace or /tmp, got '{}'", policy::Shown(base)));
  return PlaceOf(hub, call, fmt::format("{}/{}", base, path));
}

Answer<Place> PlaceOfParameter(const Hub& hub, const Call& call) {
  return PlaceOf(hub, call, std::string(call.exchange.request().parameter("path").value_or("")));
}

async::Task<void> List(Hub& hub, Call& call) {
  auto place = PlaceOfParameter(hub, call);
  if (!place) co_return co_await Refuse(call.exchange, std::move(place.error()));
  const http::Request& request = call.exchange.request();
  size_t limit = 1000;
  if (auto text = request.parameter("limit")) {
    auto [end, error] = std::from_chars(text->begin(), text->end(), limit);
    if (error != std::errc() || end != text->end()) {
      co_return co_await Refuse(
          call.exchange, Invalid(fmt::format("limit: must be a whole number, got '{}'", policy::Shown(*text))).error());
    }
  }
  auto page =
      place->files.List(place->path, std::string(request.parameter("after").value_or("")), std::max<size_t>(limit, 1));
  if (!page) co_return co_await Refuse(call.exchange, ToApiError(page.error()));
  Json entries = Json::array();
  for (const workspace::FileEntry& entry : page->entries) entries.push_back(Describe(entry));
  Json json = {{"files", std::move(entries)}, {"next", page->next ? Json(*page->next) : Json(nullptr)}};
  if (!page->complete) json["complete"] = false;
  co_await AnswerJson(call.exchange, 200, json);
}

// "bytes=FIRST-LAST" and "bytes=FIRST-" and "bytes=-COUNT"; anything else is as if it was not there.
bool SetRange(std::string_view header, workspace::Download* file, bool* beyond) {
  *beyond = false;
  if (file->size() == 0 || !header.starts_with("bytes=") || header.find(',') != std::string_view::npos) return false;
  header.remove_prefix(6);
  const size_t dash = header.find('-');
  if (dash == std::string_view::npos) return false;
  auto number = [](std::string_view text) -> std::optional<uint64_t> {
    uint64_t value = 0;
    auto [end, error] = std::from_chars(text.begin(), text.end(), value);
    if (text.empty() || error != std::errc() || end != text.end()) return std::nullopt;
    return value;
  };
  auto first = number(header.substr(0, dash));
  auto last = number(header.substr(dash + 1));
  if (!first && !last) return false;
  if (first && last && *last < *first) return false;
  uint64_t offset = first ? *first : file->size() - std::min(file->size(), *last);
  std::optional<uint64_t> length = first && last ? std::optional(*last - *first + 1) : std::nullopt;
  *beyond = !file->SetRange(offset, length);
  return true;
}

async::Task<void> Download(Hub& hub, Call& call) {
  auto place = PlaceOf(hub, call);
  if (!place) co_return co_await Refuse(call.exchange, std::move(place.error()));
  auto file = place->files.StartDownload(place->path);
  if (!file) co_return co_await Refuse(call.exchange, ToApiError(file.error()));
  bool beyond = false;
  const bool ranged = SetRange(call.exchange.request().header("Range").value_or(""), &*file, &beyond);
  const std::string whole = std::to_string(file->size());
  if (beyond) {
    const std::string range = "bytes */" + whole;
    (void)co_await call.exchange.Send(416, {{"Content-Range", range}}, "");
    co_return;
  }
  const std::string length = std::to_string(file->length());
  const std::string range = fmt::format("bytes {}-{}/{}", file->offset(), file->offset() + file->length() - 1, whole);
  std::vector<http::Header> headers = {{"Content-Type", file->media_type()},
                                       {"Content-Length", length},
                                       {"Accept-Ranges", "bytes"},
                                       // Guests choose the content: no browser shall run it in our name.
                                       {"Content-Disposition", "attachment"},
                                       {"X-Content-Type-Options", "nosniff"}};
  if (ranged) headers.push_back({"Content-Range", range});
  auto begun = co_await call.exchange.Begin(ranged ? 206 : 200, headers);
  std::string buffer(kChunk, '\0');
  while (begun) {
    auto count = file->Read(buffer);
    if (!count) co_return call.exchange.Abort();
    if (*count == 0) break;
    begun = co_await call.exchange.Write(std::string_view(buffer).substr(0, *count));
  }
  if (begun) (void)co_await call.exchange.End();
}

// How much may still come of a body that is read piece by piece.
class BodyAllowance {
 public:
  BodyAllowance(const Hub& hub, const Call& call) : left_(hub.config.server.max_body) {
    too_large_ = call.exchange.request().content_length().value_or(0) > left_;
  }
  bool Take(size_t bytes) {
    too_large_ = too_large_ || bytes > left_;
    left_ -= std::min<uint64_t>(bytes, left_);
    return !too_large_;
  }
  bool too_large() const { return too_large_; }
  ApiError Error() const {
    return {413, "too_large", "the body is larger than this server takes", "max_body decides", {}};
  }

 private:
  uint64_t left_;
  bool too_large_ = false;
};

async::Task<void> Upload(Hub& hub, Call& call) {
  auto place = PlaceOf(hub, call);
  if (!place) co_return co_await Refuse(call.exchange, std::move(place.error()));
  BodyAllowance allowance(hub, call);
  if (allowance.too_large()) co_return co_await Refuse(call.exchange, allowance.Error());
  workspace::WorkspaceFiles::UploadOptions options;
  options.announced = call.exchange.request().content_length();
  auto upload = place->files.StartUpload(place->path, options);
  if (!upload) co_return co_await Refuse(call.exchange, ToApiError(upload.error()));
  for (;;) {
    auto part = co_await call.exchange.ReadSome();
    if (!part) co_return;
    if (part->empty()) break;
    if (!allowance.Take(part->size())) co_return co_await Refuse(call.exchange, allowance.Error());
    auto written = upload->Write(*part);
    if (!written) co_return co_await Refuse(call.exchange, ToApiError(written.error()));
  }
  auto kept = upload->Commit();
  if (!kept) co_return co_await Refuse(call.exchange, ToApiError(kept.error()));
  co_await AnswerJson(call.exchange, 201, {{"path", place->shown}, {"size", upload->bytes()}});
}

async::Task<void> Remove(Hub& hub, Call& call) {
  auto place = PlaceOf(hub, call);
  if (!place) co_return co_await Refuse(call.exchange, std::move(place.error()));
  const bool recursive = call.exchange.request().parameter("recursive").value_or("") == "true";
  auto removed = co_await place->files.Remove(
      place->path, recursive ? workspace::WorkspaceFiles::Recursive::kYes : workspace::WorkspaceFiles::Recursive::kNo);
  if (!removed) co_return co_await Refuse(call.exchange, ToApiError(removed.error()));
  (void)co_await call.exchange.Send(204, {}, "");
}

async::Task<void> ArchiveDown(Hub& hub, Call& call) {
  auto place = PlaceOfParameter(hub, call);
  if (!place) co_return co_await Refuse(call.exchange, std::move(place.error()));
  auto archive = workspace::ArchiveOut::Start(place->files.directory(), place->path, {});
  if (!archive) co_return co_await Refuse(call.exchange, ToApiError(archive.error()));
  auto begun = co_await call.exchange.Begin(
      200, {{"Content-Type", "application/x-tar"}, {"Content-Disposition", "attachment; filename=\"workspace.tar\""}});
  while (begun) {
    auto part = archive->Read();
    if (!part) break;
    if (part->empty()) {
      (void)co_await async::SleepUntil(async::Clock::now());  // others have their turn
      continue;
    }
    begun = co_await call.exchange.Write(*part);
  }
  if (!begun) co_return;
  // One that is not whole must not look as if it were.
  if (!archive->complete()) co_return call.exchange.Abort();
  (void)co_await call.exchange.End();
}

async::Task<void> ArchiveUp(Hub& hub, Call& call) {
  auto place = PlaceOfParameter(hub, call);
  if (!place) co_return co_await Refuse(call.exchange, std::move(place.error()));
  BodyAllowance allowance(hub, call);
  if (allowance.too_large()) co_return co_await Refuse(call.exchange, allowance.Error());
  workspace::ArchiveIn::Options options;
  options.into = place->path;
  auto archive = workspace::ArchiveIn::Start(place->files.directory(), std::move(options));
  if (!archive) co_return co_await Refuse(call.exchange, ToApiError(archive.error()));
  for (;;) {
    auto part = co_await call.exchange.ReadSome();
    if (!part) co_return;
    if (part->empty()) break;
    if (!allowance.Take(part->size())) co_return co_await Refuse(call.exchange, allowance.Error());
    auto fed = archive->Feed(*part);
    if (!fed) co_return co_await Refuse(call.exchange, ToApiError(fed.error()));
  }
  auto done = archive->Finish();
  if (!done) co_return co_await Refuse(call.exchange, ToApiError(done.error()));
  co_await AnswerJson(call.exchange, 200,
                      {{"files", archive->files()}, {"bytes", archive->bytes()}, {"notes", archive->notes().named}});
}

}  // namespace

void AddFileOperations(Hub& hub, Router* router) {
  const RouteAdder add(hub, router);
  add("GET", "/v1/sessions/{id}/files", "List a directory of the workspace", List);
  add("GET", "/v1/sessions/{id}/files/{path...}", "Download a file, or a range of it", Download);
  add("PUT", "/v1/sessions/{id}/files/{path...}", "Upload a file", Upload);
  add("DELETE", "/v1/sessions/{id}/files/{path...}", "Remove a file; recursive=true: a tree", Remove);
  add("GET", "/v1/sessions/{id}/archive", "Download the workspace as a tar archive", ArchiveDown);
  add("PUT", "/v1/sessions/{id}/archive", "Unpack a tar archive into the workspace", ArchiveUp);
}

}  // namespace cella::server
