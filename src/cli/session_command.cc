#include "cli/session_command.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "cella/outcome.h"
#include "cli/policy_options.h"
#include "cli/repl/escape_filter.h"
#include "cli/session_events.h"
#include "http/client.h"
#include "os/io.h"
#include "os/named_file.h"
#include "server/config.h"

namespace cella::cli {
namespace {

using Json = nlohmann::ordered_json;
using Action = SessionOptions::Action;

constexpr size_t kPage = 1000;  // the most that the server gives at once
constexpr uint64_t kMaxUpload = uint64_t{64} << 20;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<http::Url> ServerUrl(const SessionOptions& options) {
  std::string text = options.url.empty() ? Variable("CELLA_URL") : options.url;
  if (text.empty()) {
    server::Config config;
    server::CompleteConfig(server::Surroundings::FromProcess(), &config);
    text = config.server.listen.front();
  }
  return http::ParseUrl(text);
}

// The API's own words for what it refused.
Error RefusalOf(const http::ClientResponse& response) {
  auto json = Json::parse(response.body, nullptr, false);
  auto words = json.is_object() ? json.value("/error/message"_json_pointer, "") : "";
  if (words.empty()) words = fmt::format("the server answered {}", response.status);
  auto hint = json.is_object() ? json.value("/error/hint"_json_pointer, "") : "";
  if (!hint.empty()) words += " (" + hint + ")";
  return {response.status == 404 ? ErrorCode::kNotFound : ErrorCode::kInvalid, words, 0};
}

class SessionClient {
 public:
  SessionClient(async::Loop& loop, http::Url url, const SessionOptions& options)
      : client_(loop, std::move(url), {}), options_(options), token_(Variable("CELLA_TOKEN")) {}

  async::Task<Result<int>> Run() {
    const std::string base = "/v1/sessions/" + options_.session;
    switch (options_.action) {
      case Action::kNew: co_return co_await New();
      case Action::kList: co_return co_await List();
      case Action::kShow: co_return co_await ShowSession(base);
      case Action::kRun: co_return co_await RunCode(base + "/runs");
      case Action::kRuns: co_return co_await Runs(base + "/runs");
      case Action::kRemove: co_return co_await Quiet("DELETE", base, "");
      case Action::kCancel: co_return co_await Cancel(base + "/runs/" + options_.run + "/cancel");
      case Action::kFiles: co_return co_await Files(base + "/files?path=" + Escape(options_.remote));
      case Action::kGet: {
        CO_TRY(std::string target, FileTarget(options_.remote));
        co_return co_await Get(base + "/files/" + target);
      }
      case Action::kPut: co_return co_await Put(base + "/files/");
    }
    co_return 0;
  }

 private:
  // Of a parameter.
  static std::string EscapeAll(const std::string& value) {
    std::string text = Escape(value);
    for (size_t at = 0; (at = text.find('/', at)) != std::string::npos;) text.replace(at, 1, "%2F");
    return text;
  }

  // Also as the code in a jail or container names it: /workspace/x, /tmp/x.
  static Result<std::string> FileTarget(const std::string& path) {
    for (const std::string base : {"/workspace", "/tmp"}) {
      if (path.starts_with(base + "/")) return Escape(path.substr(base.size() + 1)) + "?base=" + EscapeAll(base);
    }
    if (!path.starts_with('/')) return Escape(path);
    return Err(ErrorCode::kInvalid,
               "path '{}' is absolute, and no file below /workspace or, in a sandbox, /tmp, which alone can be reached",
               path);
  }

  static std::string Escape(const std::string& path) {
    std::string text;
    for (char c : path) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
                         c == '-' || c == '_' || c == '.' || c == '~';
      text += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return text;
  }

  http::ClientRequest Request(std::string method, std::string target, std::string body) const {
    http::ClientRequest request{std::move(method), std::move(target), {}, std::move(body)};
    request.headers.emplace_back("Content-Type", "application/json");
    if (!token_.empty()) request.headers.emplace_back("Authorization", "Bearer " + token_);
    return request;
  }

  async::Task<Result<Json>> Ask(std::string method, std::string target, std::string body) {
    auto response = co_await client_.Fetch(Request(std::move(method), std::move(target), std::move(body)));
    if (!response) co_return std::unexpected(std::move(response.error()));
    if (response->status >= 300) co_return std::unexpected(RefusalOf(*response));
    co_return response->body.empty() ? Json::object() : Json::parse(response->body, nullptr, false);
  }

  async::Task<Result<int>> Quiet(std::string method, std::string target, std::string body) {
    auto answer = co_await Ask(std::move(method), std::move(target), std::move(body));
    if (!answer) co_return std::unexpected(std::move(answer.error()));
    co_return 0;
  }

  async::Task<Result<int>> Cancel(std::string target) {
    auto answer = co_await Ask("POST", std::move(target), "");
    if (!answer) co_return std::unexpected(std::move(answer.error()));
    if (!answer->value("cancelled", true)) std::fputs("cella: the run had ended before\n", stderr);
    co_return 0;
  }

  async::Task<Result<int>> New() {
    auto answer = co_await Ask("POST", "/v1/sessions", options_.policy);
    if (!answer) co_return std::unexpected(std::move(answer.error()));
    std::printf("%s\n", options_.json ? answer->dump().c_str() : answer->value("id", "").c_str());
    co_return 0;
  }

  using Show = std::function<void(const Json&)>;

  // Every item of a list that comes in pages. `target` may have parameters.
  async::Task<Result<int>> EachItem(std::string target, const char* list, const Show& show) {
    const char joint = target.find('?') == std::string::npos ? '?' : '&';
    for (std::string after;;) {
      std::string page = fmt::format("{}{}limit={}", target, joint, kPage);
      if (!after.empty()) page += "&after=" + EscapeAll(after);
      auto answer = co_await Ask("GET", std::move(page), "");
      if (!answer) co_return std::unexpected(std::move(answer.error()));
      for (const Json& item : (*answer)[list]) show(item);
      const Json next = answer->value("next", Json());
      if (!next.is_string()) {
        if (!answer->value("complete", true)) {
          std::fputs("cella: the directory holds more than the server lists\n", stderr);
        }
        co_return 0;
      }
      // A server that does not go on would be asked for ever.
      if (next.get_ref<const std::string&>() == after) co_return Err(ErrorCode::kInternal, "the list does not end");
      after = next.get<std::string>();
    }
  }

  static std::string TextOf(const Json& item, const char* key) {
    const Json value = item.value(key, Json());
    return value.is_string() ? value.get<std::string>() : value.is_number() ? value.dump() : "";
  }

  async::Task<Result<int>> List() {
    const Show show = [this](const Json& session) {
      if (options_.json) return PrintLine(session);
      fmt::print("{:<36} {:<8} {:<8} {}\n", TextOf(session, "id"), TextOf(session, "status"),
                 TextOf(session, "executor"), TextOf(session, "name"));
    };
    co_return co_await EachItem("/v1/sessions", "sessions", show);
  }

  async::Task<Result<int>> ShowSession(std::string target) {
    auto answer = co_await Ask("GET", std::move(target), "");
    if (!answer) co_return std::unexpected(std::move(answer.error()));
    if (options_.json) {
      PrintLine(*answer);
      co_return 0;
    }
    for (const char* key : {"id", "name", "executor", "status"}) fmt::print("{:<10} {}\n", key, TextOf(*answer, key));
    const Json usage = answer->value("usage", Json());
    if (!usage.is_object()) co_return 0;
    fmt::print("{:<10} {}\n", "alive", usage.value("alive", false) ? "yes" : "no");
    for (const char* key : {"memory", "cpu_ms", "processes"}) fmt::print("{:<10} {}\n", key, TextOf(usage, key));
    co_return 0;
  }

  async::Task<Result<int>> Runs(std::string target) {
    const Show show = [this](const Json& run) {
      if (options_.json) return PrintLine(run);
      fmt::print("{:<36} {:<10} {:>4} {}\n", TextOf(run, "id"), TextOf(run, "status"), TextOf(run, "exit_code"),
                 TextOf(run, "language"));
    };
    co_return co_await EachItem(std::move(target), "runs", show);
  }

  static void PrintLine(const Json& json) { fmt::print("{}\n", json.dump()); }

  Result<std::string> Code() const {
    if (options_.code) return *options_.code;
    return os::ReadNamedFile(options_.file.value_or("-") == "-" ? "/dev/stdin" : *options_.file, kMaxUpload);
  }

  // Output as it comes; the exit code is the run's.
  async::Task<Result<int>> RunCode(std::string target) {
    CO_TRY(std::string code, Code());
    Json body = {{"code", std::move(code)}, {"cancel_on_disconnect", true}};
    if (options_.language) body["language"] = *options_.language;
    if (options_.timeout) body["timeout"] = *options_.timeout;
    auto request = Request("POST", std::move(target), body.dump(-1, ' ', false, Json::error_handler_t::replace));
    if (options_.json) {
      auto response = co_await client_.Fetch(request);
      if (!response) co_return std::unexpected(std::move(response.error()));
      if (response->status >= 300) co_return std::unexpected(RefusalOf(*response));
      std::printf("%s\n", response->body.c_str());
      co_return Json::parse(response->body, nullptr, false).value("exit_code", kExitRejected);
    }
    request.headers.emplace_back("Accept", "application/x-ndjson");
    auto response = co_await client_.Start(request);
    if (!response) co_return std::unexpected(std::move(response.error()));
    if (response->status >= 300) {
      auto rest = co_await client_.NextBytes();
      if (rest) response->body = std::move(*rest);
      co_return std::unexpected(RefusalOf(*response));
    }
    SessionEvents events;
    for (;;) {
      auto line = co_await client_.NextLine();
      if (!line) co_return std::unexpected(std::move(line.error()));
      if (!*line) co_return events.exit_code();
      events.Show(Json::parse(**line, nullptr, false));
    }
  }

  async::Task<Result<int>> Files(std::string target) {
    const Show show = [](const Json& file) {
      const bool directory = file.value("type", "") == "directory";
      // Guests choose the names, which must not speak to the terminal.
      const std::string name = PlainText(file.value("name", ""));
      fmt::print("{:>12} {}{}\n", file.value("size", uint64_t{0}), name, directory ? "/" : "");
    };
    co_return co_await EachItem(std::move(target), "files", show);
  }

  async::Task<Result<int>> Get(std::string target) {
    auto response = co_await client_.Start(Request("GET", std::move(target), ""));
    if (!response) co_return std::unexpected(std::move(response.error()));
    UniqueFd file;
    for (;;) {
      auto bytes = co_await client_.NextBytes();
      if (!bytes) co_return std::unexpected(std::move(bytes.error()));
      if (response->status >= 300) {
        response->body = std::move(*bytes);
        co_return std::unexpected(RefusalOf(*response));
      }
      if (bytes->empty()) break;
      if (options_.local == "-") {
        CO_TRY_VOID(os::WriteAll(STDOUT_FILENO, *bytes));
        continue;
      }
      if (!file) CO_TRY_VOID(OpenLocal(&file));
      CO_TRY_VOID(os::WriteAll(file.get(), *bytes));
    }
    if (!file && options_.local != "-") CO_TRY_VOID(OpenLocal(&file));
    co_return 0;
  }

  Status OpenLocal(UniqueFd* file) const {
    *file = UniqueFd(open(options_.local.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    return *file ? Status{} : SysErr(errno, "open '{}'", options_.local);
  }

  async::Task<Result<int>> Put(std::string target) {
    std::string name = options_.remote;
    if (name.empty()) name = options_.local.substr(options_.local.rfind('/') + 1);
    if (name.empty() || name == "-") co_return Err(ErrorCode::kInvalid, "give PATH, the file's name in the session");
    CO_TRY(const std::string file, FileTarget(name));
    target += file;
    CO_TRY(std::string content, os::ReadNamedFile(options_.local == "-" ? "/dev/stdin" : options_.local, kMaxUpload));
    co_return co_await Quiet("PUT", std::move(target), std::move(content));
  }

  http::Client client_;
  const SessionOptions& options_;
  const std::string token_;
};

}  // namespace

void DeclareSessionOptions(CLI::App& command, SessionOptions* o) {
  command.require_subcommand(1);
  command.footer(
      R"(The server is CELLA_URL (unix:PATH, http://HOST:PORT), else your own default socket; CELLA_TOKEN is the token.

  id=$(cella session new)
  cella session run $id -c 'x = 6'
  cella session run $id -c 'x * 7'
  cella session rm $id)");
  auto add = [&](const char* name, const char* help, Action action) {
    CLI::App* sub = command.add_subcommand(name, help);
    sub->add_option("--url", o->url, "The server")->check([](const std::string& text) {
      auto url = http::ParseUrl(text);
      return url ? "" : url.error().message;
    });
    sub->callback([o, action] { o->action = action; });
    return sub;
  };
  auto with_session = [&](CLI::App* sub) {
    sub->add_option("SESSION", o->session, "The session's id")->required();
    return sub;
  };
  CLI::App* created = add("new", "Open a session and print its id", Action::kNew);
  created->add_option("POLICY", o->policy, "A Policy document (JSON)");
  created->add_flag("--json", o->json, "Print all of it");
  add("ls", "List your sessions", Action::kList)->add_flag("--json", o->json, "Print JSON lines");
  with_session(add("show", "Show a session and what it uses now", Action::kShow))
      ->add_flag("--json", o->json, "Print all of it as JSON");
  CLI::App* run = with_session(add("run", "Run code in a session; its exit code is the run's", Action::kRun));
  run->add_option("FILE", o->file, "A file with code; - or none: standard input");
  OptionalText(*run, "-c,--code", &o->code, "The code itself");
  OptionalText(*run, "-l,--lang", &o->language, "Its language (python)");
  OptionalText(*run, "--timeout", &o->timeout, "End it after so long")->check([](const std::string& text) {
    auto duration = ParseDuration(text);
    return duration ? "" : duration.error().message;
  });
  run->add_flag("--json", o->json, "Print the Result");
  with_session(add("runs", "List the runs of a session, with their ids", Action::kRuns))
      ->add_flag("--json", o->json, "Print JSON lines");
  with_session(add("rm", "End a session", Action::kRemove));
  with_session(add("files", "List files of a session", Action::kFiles))->add_option("PATH", o->remote, "A directory");
  CLI::App* get = with_session(add("get", "Download a file", Action::kGet));
  get->add_option("PATH", o->remote, "The session's file")->required();
  get->add_option("TO", o->local, "Where it goes (standard output)");
  CLI::App* put = with_session(add("put", "Upload a file", Action::kPut));
  put->add_option("FROM", o->local, "The file; -: standard input")->required();
  put->add_option("PATH", o->remote, "Its name in the session (that of the file)");
  with_session(add("cancel", "Cancel a run", Action::kCancel))->add_option("RUN", o->run, "The run's id")->required();
}

int SessionCommand(const SessionOptions& options) {
  auto fail = [](const Error& error) {
    std::fprintf(stderr, "cella: %s\n", error.message.c_str());
    return kExitRejected;
  };
  auto url = ServerUrl(options);
  if (!url) return fail(url.error());
  async::Loop loop;
  SessionClient client(loop, std::move(*url), options);
  auto exit_code = loop.Run(client.Run());
  return exit_code ? *exit_code : fail(exit_code.error());
}

}  // namespace cella::cli
