#include "doctor/proof.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <nlohmann/json.hpp>

#include "os/io.h"
#include "os/process.h"
#include "os/syscalls.h"

namespace cella::doctor {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr std::chrono::seconds kLimit{10};
constexpr size_t kMaxAnswer = 64 * 1024;

struct Answer {
  std::string out;
  std::string err;
};

// False when the stream has ended.
bool ReadSome(int fd, std::string& into) {
  std::array<char, 4096> buffer;
  ssize_t count = os::RetryOnEintr([&] { return read(fd, buffer.data(), buffer.size()); });
  if (count <= 0) return false;
  into.append(buffer.data(), static_cast<size_t>(count));
  return into.size() <= kMaxAnswer;
}

Result<Answer> RunCella(const ProofRequest& request) {
  TRY(os::Pipe out, os::MakePipe());
  TRY(os::Pipe err, os::MakePipe());
  UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null) return SysErr(errno, "open '/dev/null'");
  os::SpawnOptions options;
  options.program = request.program;
  options.argv = {"cella", "run", "--json", "--timeout", "5s", "--lang", request.language, "-c", request.code};
  options.env = request.environment;
  options.fds = {{null.get(), 0}, {out.write.get(), 1}, {err.write.get(), 2}};
  TRY(os::Process process, os::Process::Spawn(options));  // its destructor ends it
  out.write.Reset();
  err.write.Reset();

  Answer answer;
  Clock::time_point deadline = Clock::now() + kLimit;
  while (out.read || err.read) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return Err(ErrorCode::kExhausted, "it did not end within {} s", kLimit.count());
    std::array<pollfd, 2> fds = {pollfd{out.read ? out.read.get() : -1, POLLIN, 0},
                                 pollfd{err.read ? err.read.get() : -1, POLLIN, 0}};
    if (poll(fds.data(), fds.size(), static_cast<int>(left)) < 0 && errno != EINTR) return SysErr(errno, "poll");
    if (fds[0].revents != 0 && !ReadSome(out.read.get(), answer.out)) out.read.Reset();
    if (fds[1].revents != 0 && !ReadSome(err.read.get(), answer.err)) err.read.Reset();
  }
  return answer;
}

std::string Text(const Json& object, const char* key) {
  auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

Isolation ReadIsolation(const Json& json) {
  Isolation isolation;
  isolation.executor = Text(json, "executor");
  if (auto names = json.find("namespaces"); names != json.end() && names->is_array()) {
    for (const Json& name : *names) {
      if (name.is_string()) isolation.namespaces.push_back(name.get<std::string>());
    }
  }
  isolation.seccomp = json.contains("seccomp") && json["seccomp"] == true;
  if (json.contains("landlock") && json["landlock"].is_number_integer())
    isolation.landlock = json["landlock"].get<int>();
  isolation.cgroup = Text(json, "cgroup");
  isolation.network = Text(json, "network");
  isolation.proc = Text(json, "proc");
  if (auto limits = json.find("limits"); limits != json.end() && limits->is_object()) {
    for (const auto& [name, limit] : limits->items()) {
      if (limit.is_object()) isolation.limits[name] = {.value = 0, .by = Text(limit, "by")};
    }
  }
  return isolation;
}

}  // namespace

ProofFacts ReadProof(std::string_view text) {
  ProofFacts proof;
  proof.tried = true;
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    proof.message = "it printed no Result";
    return proof;
  }
  if (auto isolation = json.find("isolation"); isolation != json.end() && isolation->is_object()) {
    proof.isolation = ReadIsolation(*isolation);
  }
  std::string status = Text(json, "status");
  proof.ok = status == "ok" && Text(json, "stdout").starts_with("ok");
  if (proof.ok) return proof;
  auto error = json.find("error");
  proof.message = error != json.end() && error->is_object() ? Text(*error, "message") : "";
  if (proof.message.empty()) proof.message = fmt::format("it ended as '{}' {}", status, Text(json, "stderr"));
  return proof;
}

ProofFacts Prove(const ProofRequest& request) {
  Clock::time_point start = Clock::now();
  auto answer = RunCella(request);
  double total_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  ProofFacts proof;
  if (!answer) {
    proof.tried = true;
    proof.message = answer.error().message;
  } else {
    proof = ReadProof(answer->out);
    if (!proof.ok && answer->out.empty() && !answer->err.empty()) proof.message = answer->err.substr(0, 400);
  }
  proof.language = request.language;
  proof.total_ms = total_ms;
  return proof;
}

}  // namespace cella::doctor
