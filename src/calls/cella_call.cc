// cella-call NAME key=value ...: calls the host from any program of a guest (runners/README.md). One static file, which
// runs in any jail and any image. The words are converted by the schema of the tool; what the call answers is printed.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kUsage =
    "usage: cella-call NAME [key=value | key:=JSON]...   call a tool of the host, or NAMESPACE.OPERATION\n"
    "       cella-call NAME -                            the arguments are a JSON object on standard input\n"
    "       cella-call --list                            the tools, one line each\n"
    "       cella-call --describe NAME                   description and schema, as JSON\n"
    "A text is printed as it is, any other result as JSON. Exit code: 1 the call failed, 2 wrong usage, 3 no call was\n"
    "possible.\n";
constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;
constexpr int kUnreachable = 3;
constexpr size_t kMostBytes = size_t{1} << 20;
constexpr size_t kMostHeader = 4096;

int Complain(int code, const std::string& text) {
  fprintf(stderr, "cella-call: %s\n", text.c_str());
  return code;
}

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

struct Answer {
  std::string kind;  // of the error; empty: none
  std::string message;
  std::string value;  // JSON text
};

// One connection carries the calls of this program, one after the other.
class Host {
 public:
  Host() = default;
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  ~Host() {
    if (fd_ >= 0) close(fd_);
  }

  // False: why() says it.
  bool Call(const std::string& space, const std::string& operation, const Json& arguments, Answer* answer) {
    Json call = Json::object();
    call["space"] = space;
    call["operation"] = operation;
    const std::string header = Dump(call), body = Dump(arguments);
    if (header.size() > kMostHeader) return Fail("the name is too long");
    if (body.size() > kMostBytes) return Fail("the arguments have more than 1 MiB: write a file and pass its name");
    if (fd_ < 0 && !Connect()) return false;
    const std::string frame = Prefix(header.size()) + Prefix(body.size()) + header + body;
    // The host may refuse before it has read everything: its answer says why.
    (void)SendAll(frame);
    std::array<unsigned char, 8> sizes;
    if (!ReadAll(sizes.data(), sizes.size())) return Fail("the run ended before the call");
    std::string head(Size(sizes.data()), '\0');
    answer->value.assign(Size(sizes.data() + 4), '\0');
    if (head.size() > kMostHeader || answer->value.size() > (kMostBytes << 4)) return Fail("the host sent no answer");
    if (!ReadAll(head.data(), head.size()) || !ReadAll(answer->value.data(), answer->value.size())) {
      return Fail("the run ended before the call");
    }
    const Json json = Json::parse(head, nullptr, false);
    if (json.is_object() && json.contains("error") && json["error"].is_object()) {
      const Json& error = json["error"];
      answer->kind = Text(error, "type", "HostCallError");
      answer->message = Text(error, "message", "");
    }
    return true;
  }
  const std::string& why() const { return why_; }

 private:
  static std::string Text(const Json& from, const char* key, const char* otherwise) {
    auto found = from.find(key);
    return found != from.end() && found->is_string() ? found->get<std::string>() : otherwise;
  }
  static std::string Prefix(size_t size) {
    std::string bytes;
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(size >> shift & 0xff));
    return bytes;
  }
  static size_t Size(const unsigned char* bytes) {
    return bytes[0] | size_t{bytes[1]} << 8 | size_t{bytes[2]} << 16 | size_t{bytes[3]} << 24;
  }
  bool Fail(std::string why) {
    why_ = std::move(why);
    return false;
  }

  bool Connect() {
    const char* named = getenv("CELLA_CALLS");
    const std::string path = named != nullptr && *named != '\0' ? named : "/tmp/.cella-calls";
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return Fail("CELLA_CALLS is no path of a socket");
    std::memcpy(address.sun_path, path.data(), path.size());
    fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int connected = -1;
    do {
      connected = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    } while (connected < 0 && errno == EINTR);
    if (connected < 0) return Fail(std::string("the host cannot be reached: ") + strerror(errno));
    return true;
  }
  bool SendAll(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  bool ReadAll(void* into, size_t size) const {
    char* at = static_cast<char*>(into);
    while (size > 0) {
      const ssize_t n = read(fd_, at, size);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      at += n;
      size -= static_cast<size_t>(n);
    }
    return true;
  }

  int fd_ = -1;
  std::string why_;
};

bool IsUtf8(std::string_view text) {
  const Json json = std::string(text);
  const std::string shown = json.dump(-1, ' ', false, Json::error_handler_t::ignore);
  return shown.size() >= 2 && Json::parse(shown, nullptr, false) == json;
}

// A word as the type `type` of a JSON schema. Nothing: it is none.
std::optional<Json> AsType(std::string_view type, std::string_view word) {
  if (type == "string") return Json(std::string(word));
  if (type == "null") return word.empty() || word == "null" ? std::optional<Json>(nullptr) : std::nullopt;
  if (type == "boolean") {
    for (std::string_view yes : {"true", "True", "yes", "1"}) {
      if (word == yes) return Json(true);
    }
    for (std::string_view no : {"false", "False", "no", "0"}) {
      if (word == no) return Json(false);
    }
    return std::nullopt;
  }
  Json json = Json::parse(word, nullptr, false);
  const bool fits = (type == "integer" && json.is_number_integer()) || (type == "number" && json.is_number()) ||
                    (type == "array" && json.is_array()) || (type == "object" && json.is_object());
  return fits ? std::optional<Json>(std::move(json)) : std::nullopt;
}

std::optional<Json> Convert(const Json& schema, std::string_view word, int depth = 0) {
  constexpr int kDeepest = 8;
  if (schema.is_object() && depth < kDeepest) {
    if (auto all = schema.find("enum"); all != schema.end() && all->is_array()) {
      for (const Json& each : *all) {
        if (each.is_string() ? each.get<std::string>() == word : Dump(each) == word) return each;
      }
      return std::nullopt;
    }
    if (auto any = schema.find("anyOf"); any != schema.end() && any->is_array()) {
      // In their order, as the function converts them; `null` is the last choice.
      for (const bool null : {false, true}) {
        for (const Json& each : *any) {
          if ((each.is_object() && each.value("type", Json()) == "null") != null) continue;
          if (auto converted = Convert(each, word, depth + 1)) return converted;
        }
      }
      return std::nullopt;
    }
    if (auto type = schema.find("type"); type != schema.end() && type->is_string()) {
      return AsType(type->get<std::string>(), word);
    }
  }
  Json json = Json::parse(word, nullptr, false);
  return json.is_discarded() ? Json(std::string(word)) : json;
}

// Of one argument; an empty object: anything.
Json SchemaOf(const Json& schema, const std::string& name) {
  if (!schema.is_object()) return Json::object();
  if (auto found = schema.find("properties"); found != schema.end() && found->is_object() && found->contains(name)) {
    return (*found)[name];
  }
  auto more = schema.find("additionalProperties");
  return more != schema.end() && more->is_object() ? *more : Json::object();
}

struct Word {
  std::string name, text;
  bool is_json = false;
};

// False: it is no key=value.
bool Split(std::string_view argument, Word* word) {
  const size_t equals = argument.find('=');
  if (equals == 0 || equals == argument.npos) return false;
  word->is_json = argument[equals - 1] == ':';
  word->name = argument.substr(0, equals - (word->is_json ? 1 : 0));
  word->text = argument.substr(equals + 1);
  return !word->name.empty();
}

std::string ReadInput() {
  std::string text;
  std::array<char, 65536> buffer;
  while (text.size() <= kMostBytes) {
    const ssize_t n = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(buffer.data(), static_cast<size_t>(n));
  }
  return text;
}

int Print(const Answer& answer) {
  if (!answer.kind.empty()) {
    fprintf(stderr, "%s: %s\n", answer.kind.c_str(), answer.message.c_str());
    return answer.kind == "CallRefused" || answer.kind == "CallCancelled" ? kUnreachable : kFailed;
  }
  const Json value = Json::parse(answer.value, nullptr, false);
  if (value.is_null()) return 0;
  const std::string text = value.is_string() ? value.get<std::string>() : answer.value;
  const bool written = fwrite(text.data(), 1, text.size(), stdout) == text.size() && fputc('\n', stdout) != EOF;
  return written && fflush(stdout) == 0 ? 0 : kFailed;
}

Json Arguments(const std::vector<std::string>& positional, Json named = Json::array()) {
  Json arguments = Json::object();
  arguments["args"] = Json::array();
  for (const std::string& each : positional) arguments["args"].push_back(each);
  arguments["kwargs"] = std::move(named);
  return arguments;
}

int List(Host& host) {
  Answer answer;
  if (!host.Call("tools", "meta.list", Arguments({}), &answer)) return Complain(kUnreachable, host.why());
  if (!answer.kind.empty()) return Print(answer);
  const Json list = Json::parse(answer.value, nullptr, false);
  if (!list.is_array()) return Complain(kUnreachable, "the host sent no list");
  for (const Json& tool : list) {
    if (!tool.is_object()) continue;
    std::string description = tool.value("description", Json("")).is_string() ? tool.value("description", "") : "";
    description = description.substr(0, description.find('\n'));
    printf("%s\t%s\n", tool.value("name", "").c_str(), description.c_str());
  }
  return fflush(stdout) == 0 ? 0 : kFailed;
}

int Call(Host& host, const std::string& name, const std::vector<std::string>& words) {
  const size_t dot = name.find('.');
  const bool is_tool = dot == name.npos;
  const std::string space = is_tool ? "tools" : name.substr(0, dot);
  const std::string operation = is_tool ? name : name.substr(dot + 1);
  Json named = Json::array();
  if (words.size() == 1 && words.front() == "-") {
    const Json object = Json::parse(ReadInput(), nullptr, false);
    if (!object.is_object()) return Complain(kWrongUsage, "standard input must be a JSON object of at most 1 MiB");
    for (const auto& [key, value] : object.items()) named.push_back(Json::array({key, value}));
  } else {
    Json schema = Json::object();
    bool asked = false;
    for (const std::string& argument : words) {
      Word word;
      if (!Split(argument, &word)) return Complain(kWrongUsage, "'" + argument + "': must be key=value or key:=JSON");
      if (!IsUtf8(argument)) return Complain(kWrongUsage, "the value of '" + word.name + "' is no UTF-8 text");
      std::optional<Json> value;
      if (word.is_json) {
        Json json = Json::parse(word.text, nullptr, false);
        if (json.is_discarded()) return Complain(kWrongUsage, "the value of '" + word.name + "' is no JSON");
        value = std::move(json);
      } else if (is_tool) {
        if (!asked) {
          Answer described;
          if (!host.Call("tools", "meta.describe", Arguments({operation}), &described)) {
            return Complain(kUnreachable, host.why());
          }
          if (!described.kind.empty()) return Print(described);
          const Json entry = Json::parse(described.value, nullptr, false);
          if (entry.is_object() && entry.contains("schema")) schema = entry["schema"];
          asked = true;
        }
        const Json wanted = SchemaOf(schema, word.name);
        value = Convert(wanted, word.text);
        if (!value) {
          return Complain(kFailed, "'" + argument + "': the value does not fit " + Dump(wanted).substr(0, 300));
        }
      } else {
        value = Json(word.text);
      }
      named.push_back(Json::array({word.name, std::move(*value)}));
    }
  }
  Answer answer;
  if (!host.Call(space, operation, Arguments({}, std::move(named)), &answer)) return Complain(kUnreachable, host.why());
  return Print(answer);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || words.front() == "--help") {
    fputs(kUsage, words.empty() ? stderr : stdout);
    return words.empty() ? kWrongUsage : 0;
  }
  Host host;
  if (words.front() == "--list" && words.size() == 1) return List(host);
  if (words.front() == "--describe" && words.size() == 2) {
    Answer answer;
    if (!host.Call("tools", "meta.describe", Arguments({words[1]}), &answer)) {
      return Complain(kUnreachable, host.why());
    }
    return Print(answer);
  }
  if (words.front().starts_with("-")) {
    fputs(kUsage, stderr);
    return kWrongUsage;
  }
  return Call(host, words.front(), {words.begin() + 1, words.end()});
}
