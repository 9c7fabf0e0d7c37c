#include "server/session_tools.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "calls/arguments.h"
#include "policy/names.h"

namespace cella::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxTools = 256;
constexpr size_t kMaxToolName = 64;
constexpr size_t kMaxDescription = size_t{8} << 10;
constexpr size_t kMaxSchema = size_t{32} << 10;
constexpr size_t kMaxReply = size_t{1} << 20;
constexpr size_t kMaxNamesShown = 2000;
constexpr size_t kMostFound = 100;
// Of all channels of a session together.
constexpr size_t kMostTools = 1024;
constexpr size_t kMostText = size_t{4} << 20;
// Each word of a query is looked for in the beginning of each description.
constexpr size_t kMaxQuery = 256;
constexpr size_t kMostWords = 16;
constexpr size_t kSearched = size_t{2} << 10;
// These are functions of the guest's object itself.
constexpr std::string_view kReserved[] = {"list", "search", "call_sync", "call_async"};

run::HostReply Failed(const char* type, std::string message) {
  return {.id = 0, .value = {}, .error = run::HostError{type, std::move(message)}};
}

run::HostReply Value(std::string json) {
  run::HostReply reply;
  reply.value = std::move(json);
  return reply;
}

std::string Quoted(const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

// The schema is JSON already.
std::string Entry(const Tool& tool) {
  return fmt::format(R"({{"name":{},"description":{},"schema":{}}})", Quoted(tool.name), Quoted(tool.description),
                     tool.schema);
}

std::string List(const std::vector<const Tool*>& tools) {
  std::string list = "[";
  for (const Tool* tool : tools) list += (list.size() > 1 ? "," : "") + Entry(*tool);
  return list + "]";
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
  return lower;
}

std::vector<std::string> WordsOf(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : Lower(text)) {
    const bool joins = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || static_cast<unsigned char>(c) >= 0x80;
    if (joins) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  std::ranges::sort(words);
  const auto doubles = std::ranges::unique(words);
  words.erase(doubles.begin(), doubles.end());
  if (words.size() > kMostWords) words.resize(kMostWords);
  return words;
}

// How well a tool fits the words of a query: a word of the name counts more than one of the description.
int Score(const Tool& tool, const std::vector<std::string>& query) {
  const std::string name = Lower(tool.name);
  const std::string description = Lower(std::string_view(tool.description).substr(0, kSearched));
  int score = 0;
  for (const std::string& word : query) score += (name.contains(word) ? 3 : 0) + (description.contains(word) ? 1 : 0);
  return score;
}

Answer<Tool> ReadTool(const nlohmann::json& each) {
  auto text = [&](const char* key) {
    auto found = each.find(key);
    return found != each.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  if (!each.is_object()) return Invalid("tools: each is an object with name, description and schema");
  Tool tool{text("name"), text("description"), "{}"};
  if (!policy::IsVariableName(tool.name) || tool.name.size() > kMaxToolName || tool.name.starts_with('_')) {
    return Invalid(fmt::format("tools: '{}' is not the name of a tool: letters, digits and '_', at most {}",
                               policy::Shown(tool.name), kMaxToolName));
  }
  if (std::ranges::find(kReserved, tool.name) != std::end(kReserved)) {
    return Invalid(fmt::format("tools: '{}' is a function of tools itself: choose another name", tool.name));
  }
  if (auto schema = each.find("schema"); schema != each.end()) {
    if (!schema->is_object()) return Invalid(fmt::format("tools: the schema of '{}' is no object", tool.name));
    tool.schema = schema->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  if (tool.description.size() > kMaxDescription || tool.schema.size() > kMaxSchema) {
    return Invalid(fmt::format("tools: '{}' has a description above {} bytes or a schema above {}", tool.name,
                               kMaxDescription, kMaxSchema));
  }
  return tool;
}

using ToolsByName = std::map<std::string, const Tool*>;

run::HostReply NoTool(std::string_view name, const ToolsByName& all) {
  std::string names;
  for (const auto& [known, tool] : all) {
    if (names.size() < kMaxNamesShown) names += (names.empty() ? "" : ", ") + known;
  }
  return Failed("ToolNotFoundError", fmt::format("there is no tool '{}': there are {}", policy::Shown(name),
                                                 names.empty() ? "none" : names));
}

run::HostReply Describe(const run::HostCall& call, const ToolsByName& all) {
  auto arguments = calls::ParseArguments(call.arguments);
  if (!arguments) return Failed("ToolError", arguments.error().message);
  const calls::Value* first = arguments->positional.empty() ? nullptr : &arguments->positional.front();
  const std::string text = first != nullptr && first->is_string() ? first->get<std::string>() : "";
  std::vector<const Tool*> shown;
  if (call.operation == "meta.list") {
    for (const auto& [name, tool] : all) shown.push_back(tool);
    return Value(List(shown));
  }
  if (call.operation == "meta.describe") {
    auto tool = all.find(text);
    return tool != all.end() ? Value(Entry(*tool->second)) : NoTool(text, all);
  }
  if (text.size() > kMaxQuery) {
    return Failed("ToolError", fmt::format("a search takes at most {} bytes, not {}", kMaxQuery, text.size()));
  }
  const calls::Value* limit = arguments->Find(1, "limit");
  const size_t most = limit != nullptr && limit->is_number_unsigned() ? limit->get<size_t>() : 10;
  const std::vector<std::string> query = WordsOf(text);
  std::vector<std::pair<int, const Tool*>> found;
  for (const auto& [name, tool] : all) {
    if (const int score = Score(*tool, query); score > 0) found.emplace_back(-score, tool);
  }
  std::ranges::sort(found, {}, [](const auto& each) { return std::pair(each.first, each.second->name); });
  for (size_t i = 0; i < std::min({found.size(), most, kMostFound}); ++i) shown.push_back(found[i].second);
  return Value(List(shown));
}

}  // namespace

Answer<std::vector<Tool>> ReadTools(const nlohmann::json& document) {
  auto list = document.find("tools");
  if (list == document.end() || !list->is_array()) return Invalid("'tools' is needed: a list");
  if (list->size() > kMaxTools) return Invalid(fmt::format("tools: at most {} are accepted", kMaxTools));
  std::vector<Tool> tools;
  for (const auto& each : *list) {
    auto tool = ReadTool(each);
    if (!tool) return std::unexpected(std::move(tool.error()));
    if (std::ranges::find(tools, tool->name, &Tool::name) != tools.end()) {
      return Invalid(fmt::format("tools: '{}' is there twice", tool->name));
    }
    tools.push_back(std::move(*tool));
  }
  return tools;
}

Answer<void> SessionTools::Register(ToolProvider& provider, std::vector<Tool> tools) {
  size_t count = 0, text = 0;
  auto add = [&](const std::vector<Tool>& some) {
    count += some.size();
    for (const Tool& tool : some) text += tool.name.size() + tool.description.size() + tool.schema.size();
  };
  add(tools);
  for (const auto& [other, theirs] : registered_) {
    if (other != &provider) add(*theirs);
  }
  if (count > kMostTools || text > kMostText) {
    return Invalid(
        fmt::format("tools: a session has at most {} of all its channels, with {} bytes of descriptions and "
                    "schemas",
                    kMostTools, kMostText));
  }
  std::erase_if(registered_, [&](const auto& each) { return each.first == &provider; });
  registered_.emplace_back(&provider, std::make_shared<const std::vector<Tool>>(std::move(tools)));
  return {};
}

void SessionTools::Unregister(ToolProvider& provider) {
  std::erase_if(registered_, [&](const auto& each) { return each.first == &provider; });
  for (auto& [id, pending] : pending_) {
    if (pending->provider != &provider) continue;
    pending->provider = nullptr;
    pending->reply = Failed("ToolError", "the client that serves this tool has left");
    pending->answered.Set();
  }
}

void SessionTools::Reply(ToolProvider& provider, uint64_t call, run::HostReply reply) {
  auto found = pending_.find(call);
  if (found == pending_.end() || found->second->provider != &provider) return;
  if (reply.value && reply.value->size() > kMaxReply) {
    reply = Failed("ToolError", fmt::format("the result has {} bytes, and {} are the most: write a file and return its "
                                            "name",
                                            reply.value->size(), kMaxReply));
  }
  found->second->reply = std::move(reply);
  found->second->answered.Set();
}

bool SessionTools::IsWaitingFor(const ToolProvider& provider) const {
  return std::ranges::any_of(pending_, [&](const auto& each) { return each.second->provider == &provider; });
}

std::map<std::string, const Tool*> SessionTools::All() const {
  std::map<std::string, const Tool*> all;
  for (const auto& [provider, tools] : registered_) {
    for (const Tool& tool : *tools) all[tool.name] = &tool;
  }
  return all;
}

// The channel that began the run that is on knows best; else the newest.
ToolProvider* SessionTools::ProviderOf(const std::string& tool) const {
  const std::string run = current_run_ ? current_run_() : "";
  ToolProvider* found = nullptr;
  for (const auto& [provider, tools] : registered_) {
    if (std::ranges::find(*tools, tool, &Tool::name) == tools->end()) continue;
    found = provider;
    if (provider->HasStarted(run)) break;
  }
  return found;
}

run::HostReply SessionTools::Absent(std::string_view name) const { return NoTool(name, All()); }

async::Task<run::HostReply> SessionTools::Serve(run::HostCall call) {
  if (call.operation == "meta.list" || call.operation == "meta.search" || call.operation == "meta.describe") {
    std::vector<Tools> kept;  // while the pool reads them
    for (const auto& [provider, tools] : registered_) kept.push_back(tools);
    const auto all = All();
    auto describe = [&]() -> Result<run::HostReply> { return Describe(call, all); };
    auto described = co_await pool_.Run(describe);
    co_return described ? std::move(*described) : Failed("ToolError", described.error().message);
  }
  ToolProvider* provider = ProviderOf(call.operation);
  if (provider == nullptr) co_return Absent(call.operation);
  // Checked here; the client gets the guest's own text, with its order.
  if (auto arguments = calls::ParseArguments(call.arguments); !arguments) {
    co_return Failed("ToolError", arguments.error().message);
  }
  const uint64_t id = ++last_call_;
  auto pending = std::make_shared<Pending>(loop_, *provider);
  pending_.emplace(id, pending);
  provider->Push({{"type", "call"}, {"call", id}, {"tool", call.operation}, {"arguments", call.arguments}});
  const bool answered = co_await pending->answered.Wait();
  pending_.erase(id);
  if (answered) co_return std::move(pending->reply);
  if (pending->provider != nullptr) pending->provider->Push({{"type", "call_cancelled"}, {"call", id}});
  co_return Failed("ToolError", "the run ended before the call");
}

}  // namespace cella::server
