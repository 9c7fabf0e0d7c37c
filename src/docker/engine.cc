#include "docker/engine.h"

#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace cella::docker {
namespace {

using namespace std::chrono_literals;
using namespace nlohmann::literals;
using async::Task;
using Json = nlohmann::json;

// What we were written against; an engine may speak an older one.
constexpr std::string_view kOldest = "1.40";
constexpr std::string_view kNewest = "1.41";
// A daemon that hangs must not hang its callers.
constexpr auto kPatience = 15s;
constexpr size_t kMaxMessage = 500;

std::string Escape(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte < 0x80 && std::isalnum(byte) != 0) || c == '-' || c == '_' || c == '.' || c == '~';
    if (plain) {
      escaped += c;
    } else {
      escaped += fmt::format("%{:02X}", byte);
    }
  }
  return escaped;
}

// {"message": "…"} of an error; else the body itself, shortened.
std::string MessageOf(std::string_view body) {
  Json json = Json::parse(body, nullptr, false);
  std::string text(body);
  if (json.is_object() && json.contains("message") && json["message"].is_string()) text = json["message"];
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (text.size() > kMaxMessage) text.resize(kMaxMessage);
  return text.empty() ? "no reason given" : text;
}

std::unexpected<Error> Failed(const http::ClientResponse& response, const std::string& what) {
  const ErrorCode code = response.status == 404   ? ErrorCode::kNotFound
                         : response.status == 409 ? ErrorCode::kExhausted
                         : response.status == 400 ? ErrorCode::kInvalid
                                                  : ErrorCode::kInternal;
  return Err(code, "{}: the engine answered {}: {}", what, response.status, MessageOf(response.body));
}

bool IsSuccess(int status) { return status >= 200 && status < 300; }

// "1.41" after "1.5": by number.
std::pair<int, int> VersionNumbers(std::string_view text) {
  int major = 0, minor = 0;
  size_t dot = text.find('.');
  if (dot == text.npos) return {0, 0};
  for (char c : text.substr(0, dot)) major = major < 1000 && c >= '0' && c <= '9' ? major * 10 + (c - '0') : major;
  for (char c : text.substr(dot + 1)) minor = minor < 1000 && c >= '0' && c <= '9' ? minor * 10 + (c - '0') : minor;
  return {major, minor};
}

// "name:tag" and "name@digest" as the query of a pull wants them.
std::pair<std::string, std::string> SplitImage(const std::string& image) {
  if (image.find('@') != image.npos) return {image, ""};
  const size_t colon = image.rfind(':');
  if (colon == image.npos || image.find('/', colon) != image.npos) return {image, "latest"};
  return {image.substr(0, colon), image.substr(colon + 1)};
}

// "Downloading 3.1MB/8.2MB (a2abf6c4d29d)"
std::string ProgressOf(const Json& json) {
  auto text = [](const Json& from, const char* key) {
    auto found = from.find(key);
    return found != from.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  std::string line = text(json, "status");
  if (auto detail = json.find("progressDetail"); detail != json.end() && detail->is_object()) {
    const auto current = detail->find("current"), total = detail->find("total");
    if (current != detail->end() && current->is_number_unsigned()) {
      line += " " + FormatByteSize(current->get<uint64_t>());
      if (total != detail->end() && total->is_number_unsigned()) line += "/" + FormatByteSize(total->get<uint64_t>());
    }
  }
  if (const std::string id = text(json, "id"); !id.empty()) line += fmt::format(" ({})", id);
  if (line.size() > kMaxMessage) line.resize(kMaxMessage);
  return line;
}

}  // namespace

Engine::Engine(async::Loop& loop, EngineAddress address) : loop_(loop), address_(std::move(address)) {}

std::string Engine::Path(const std::string& path) const { return "/v" + api_version_ + path; }

http::Client Engine::MakeClient(std::chrono::nanoseconds silence) const {
  http::ClientOptions options;
  options.connect_timeout = 10s;
  options.silence = silence;
  options.ca_file = address_.ca_file;
  options.certificate = address_.certificate;
  options.remedy = "start Docker or Podman, or name another engine with --engine or DOCKER_HOST";
  return http::Client(loop_, address_.url, std::move(options));
}

Task<Result<http::ClientResponse>> Engine::Call(std::string method, std::string path, std::string body,
                                                std::chrono::nanoseconds silence) {
  http::Client client = MakeClient(silence);
  http::ClientRequest request;
  request.method = std::move(method);
  request.target = std::move(path);
  if (!body.empty()) request.headers.emplace_back("Content-Type", "application/json");
  request.body = std::move(body);
  auto response = co_await client.Fetch(request);
  if (!response && response.error().sys_errno == EACCES) {
    response.error().message = fmt::format(
        "no permission for the container engine at {} ({}): add the user to its group (usually docker; that is as "
        "powerful as root), or use a rootless engine",
        address_.url.ToString(), address_.source);
  }
  // For callers: the engine is away, which is not the engine's answer that something is not there.
  if (!response && response.error().code == ErrorCode::kNotFound) response.error().sys_errno = ECONNREFUSED;
  co_return response;
}

Task<Status> Engine::Negotiate() {
  auto response = co_await Call("GET", "/_ping", {}, kPatience);
  if (!response) co_return std::unexpected(std::move(response.error()));
  if (response->status != 200) {
    co_return Failed(*response, fmt::format("ask the engine at {} for its version", address_.url.ToString()));
  }
  const std::string version(response->header("Api-Version").value_or(""));
  if (version.empty()) {
    co_return Err(ErrorCode::kUnsupported, "what answers at {} is no container engine", address_.url.ToString());
  }
  if (VersionNumbers(version) < VersionNumbers(kOldest)) {
    co_return Err(ErrorCode::kUnsupported,
                  "the engine at {} speaks version {} of the API, and {} is needed (Docker 19.03, Podman 3): update it",
                  address_.url.ToString(), version, kOldest);
  }
  api_version_ = VersionNumbers(version) < VersionNumbers(kNewest) ? version : std::string(kNewest);
  is_podman_ = response->header("Libpod-Api-Version").has_value();
  // The socket of root's engine is root's; only others are asked, since the answer takes the engine a while.
  struct stat socket;
  const std::string& path = address_.url.address.path;
  const bool is_roots = !path.empty() && stat(path.c_str(), &socket) == 0 && socket.st_uid == 0;
  if (!is_roots) is_rootless_ = co_await AskRootless();
  co_return Status{};
}

// What cannot be told counts as root's.
Task<bool> Engine::AskRootless() {
  // Podman answers this question under a path of its own.
  const std::string path = is_podman_ ? "/v4.0.0/libpod/info" : Path("/info");
  auto response = co_await Call("GET", path, {}, kPatience);
  if (!response || response->status != 200) co_return false;
  const Json info = Json::parse(response->body, nullptr, false);
  if (!info.is_object()) co_return false;
  if (is_podman_) {
    const auto rootless = "/host/security/rootless"_json_pointer;
    co_return info.contains(rootless) && info[rootless] == true;
  }
  const Json options = info.value("SecurityOptions", Json::array());
  co_return options.is_array() && std::ranges::any_of(options, [](const Json& option) {
    return option.is_string() && option.get_ref<const std::string&>().starts_with("name=rootless");
  });
}

Task<Result<bool>> Engine::HasImage(const std::string& image) {
  auto response = co_await Call("GET", Path("/images/" + Escape(image) + "/json"), {}, kPatience);
  if (!response) co_return std::unexpected(std::move(response.error()));
  if (response->status == 404) co_return false;
  if (!IsSuccess(response->status)) co_return Failed(*response, fmt::format("look for the image '{}'", image));
  co_return true;
}

Task<Status> Engine::Pull(const std::string& image, std::chrono::nanoseconds patience,
                          const std::function<void(const std::string& line)>& on_progress) {
  const std::string what = fmt::format("pull the image '{}'", image);
  const auto [name, tag] = SplitImage(image);
  http::Client client = MakeClient(patience);
  http::ClientRequest request;
  request.method = "POST";
  request.target = Path("/images/create?fromImage=" + Escape(name) + (tag.empty() ? "" : "&tag=" + Escape(tag)));
  const Error stalled = {ErrorCode::kClosed,
                         fmt::format("{}: no progress for {}: see whether its registry answers, or fetch the image "
                                     "before",
                                     what, FormatDuration(patience)),
                         0};
  async::TimePoint progressed = async::Clock::now();
  auto is_stalled = [&] { return async::Clock::now() - progressed >= patience; };
  auto response = co_await client.Start(request);
  if (!response && is_stalled()) co_return std::unexpected(stalled);
  if (!response) co_return std::unexpected(std::move(response.error()).WithContext(what));
  if (response->status != 200) {
    auto line = co_await client.NextLine();
    if (line && *line) response->body = std::move(**line);
    co_return Failed(*response, what);
  }
  for (;;) {
    auto line = co_await client.NextLine();
    if (!line && is_stalled()) co_return std::unexpected(stalled);
    if (!line) co_return std::unexpected(std::move(line.error()).WithContext(what));
    if (!*line) co_return Status{};
    Json json = Json::parse(**line, nullptr, false);
    if (!json.is_object()) continue;
    if (json.contains("error")) {
      co_return Err(ErrorCode::kNotFound, "{}: {}", what,
                    json["error"].is_string() ? json["error"].get<std::string>() : "failed");
    }
    const std::string progress = ProgressOf(json);
    // An engine counts the seconds until it asks a registry again that does not answer.
    if (!progress.starts_with("Retrying")) progressed = async::Clock::now();
    if (is_stalled()) co_return std::unexpected(stalled);
    if (on_progress && !progress.empty()) on_progress(progress);
  }
}

Task<Result<std::string>> Engine::Create(const ContainerSpec& spec, const std::string& name) {
  const std::string query = name.empty() ? "" : "?name=" + Escape(name);
  auto response = co_await Call("POST", Path("/containers/create" + query), EncodeContainer(spec), 60s);
  if (!response) co_return std::unexpected(std::move(response.error()));
  if (!IsSuccess(response->status)) co_return Failed(*response, fmt::format("create a container of '{}'", spec.image));
  Json json = Json::parse(response->body, nullptr, false);
  if (!json.is_object() || !json.contains("Id") || !json["Id"].is_string()) {
    co_return Err(ErrorCode::kInternal, "the engine's answer names no container");
  }
  co_return json["Id"].get<std::string>();
}

Task<Result<AttachedStream>> Engine::Attach(const std::string& id) {
  http::Client client = MakeClient(std::chrono::hours(24 * 365));
  http::ClientRequest request;
  request.method = "POST";
  request.target = Path("/containers/" + id + "/attach?stream=1&stdin=1&stdout=1&stderr=1");
  request.headers = {{"Connection", "Upgrade"}, {"Upgrade", "tcp"}};
  auto upgraded = co_await client.Upgrade(request);
  if (!upgraded) co_return std::unexpected(std::move(upgraded.error()));
  if (!upgraded->stream) co_return Failed(upgraded->response, "attach to the container");
  co_return AttachedStream(std::move(upgraded->stream));
}

Task<Status> Engine::Start(const std::string& id) {
  auto response = co_await Call("POST", Path("/containers/" + id + "/start"), {}, 60s);
  if (!response) co_return std::unexpected(std::move(response.error()));
  if (!IsSuccess(response->status)) co_return Failed(*response, "start the container");
  co_return Status{};
}

Task<Result<ContainerFacts>> Engine::Inspect(const std::string& id) {
  auto response = co_await Call("GET", Path("/containers/" + Escape(id) + "/json"), {}, kPatience);
  if (!response) co_return std::unexpected(std::move(response.error()));
  if (!IsSuccess(response->status)) co_return Failed(*response, fmt::format("inspect the container '{}'", id));
  co_return DecodeContainer(response->body);
}

Task<Status> Engine::WaitRemoved(const std::string& id) {
  auto waited = co_await Wait(id, "removed");
  co_return waited;
}

Task<Status> Engine::WaitStopped(const std::string& id) {
  auto waited = co_await Wait(id, "not-running");
  co_return waited;
}

Task<Status> Engine::Wait(const std::string& id, const char* condition) {
  const std::string path = Path("/containers/" + id + "/wait?condition=" + condition);
  auto response = co_await Call("POST", path, {}, std::chrono::hours(24 * 365));
  if (!response) co_return std::unexpected(std::move(response.error()));
  // A container that is already gone answers 404.
  if (!IsSuccess(response->status) && response->status != 404) co_return Failed(*response, "wait for the container");
  co_return Status{};
}

Task<Status> Engine::Kill(const std::string& id) {
  auto response = co_await Call("POST", Path("/containers/" + id + "/kill"), {}, kPatience);
  if (!response) co_return std::unexpected(std::move(response.error()));
  // 409: it does not run.
  const bool is_over = response->status == 404 || response->status == 409;
  if (!IsSuccess(response->status) && !is_over) co_return Failed(*response, "kill the container");
  co_return Status{};
}

Task<Status> Engine::Remove(const std::string& id) {
  auto response = co_await Call("DELETE", Path("/containers/" + Escape(id) + "?force=1&v=1"), {}, kPatience);
  if (!response) co_return std::unexpected(std::move(response.error()));
  // 409: its removal is in progress.
  const bool is_over = response->status == 404 || response->status == 409;
  if (!IsSuccess(response->status) && !is_over) co_return Failed(*response, "remove the container");
  co_return Status{};
}

Task<Status> Engine::PutArchive(const std::string& id, const std::string& path, std::string tar) {
  http::Client client = MakeClient(60s);
  http::ClientRequest request;
  request.method = "PUT";
  request.target = Path("/containers/" + id + "/archive?path=" + Escape(path));
  request.headers = {{"Content-Type", "application/x-tar"}};
  request.body = std::move(tar);
  auto response = co_await client.Fetch(request);
  if (!response) co_return std::unexpected(std::move(response.error()));
  if (!IsSuccess(response->status)) co_return Failed(*response, fmt::format("copy files to '{}'", path));
  co_return Status{};
}

Task<Result<std::vector<ContainerSummary>>> Engine::List(const std::string& label) {
  const std::string filters = Json({{"label", {label}}}).dump();
  auto response = co_await Call("GET", Path("/containers/json?all=1&filters=" + Escape(filters)), {}, kPatience);
  if (!response) co_return std::unexpected(std::move(response.error()));
  if (!IsSuccess(response->status)) co_return Failed(*response, "list containers");
  Json json = Json::parse(response->body, nullptr, false);
  if (!json.is_array()) co_return Err(ErrorCode::kInternal, "the engine's list of containers is no list");
  std::vector<ContainerSummary> found;
  for (const Json& one : json) {
    if (!one.is_object()) continue;
    ContainerSummary summary;
    summary.id = one.value("Id", "");
    summary.state = one.value("State", "");
    if (auto names = one.find("Names"); names != one.end() && names->is_array() && !names->empty()) {
      if (names->front().is_string()) summary.name = names->front();
      if (summary.name.starts_with('/')) summary.name.erase(0, 1);
    }
    if (auto labels = one.find("Labels"); labels != one.end() && labels->is_object()) {
      for (const auto& [key, value] : labels->items()) {
        if (value.is_string()) summary.labels[key] = value;
      }
    }
    found.push_back(std::move(summary));
  }
  co_return found;
}

}  // namespace cella::docker
