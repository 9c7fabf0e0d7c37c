#include "library/tools.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/scope_exit.h"
#include "calls/arguments.h"
#include "library/handles.h"
#include "server/answer.h"

using namespace cella;
using namespace cella::library;

struct cella_call {
  std::string text;
  calls::Arguments arguments;
  run::HostReply reply;
};

namespace cella::library {

void ServingThreads::Enter() {
  const std::scoped_lock lock(mutex_);
  threads_.push_back(std::this_thread::get_id());
}

void ServingThreads::Leave() {
  const std::scoped_lock lock(mutex_);
  threads_.erase(std::ranges::find(threads_, std::this_thread::get_id()));
}

bool ServingThreads::HasThis() const {
  const std::scoped_lock lock(mutex_);
  return std::ranges::find(threads_, std::this_thread::get_id()) != threads_.end();
}

void Serve(ToolCall call) {
  auto arguments = calls::ParseArguments(call.arguments);
  run::HostReply reply;
  if (!arguments) {
    reply.error = run::HostError{"ToolError", arguments.error().message};
  } else {
    cella_call served{std::move(call.arguments), std::move(*arguments), {}};
    served.reply.error = run::HostError{"ToolError", call.name + "() gave no result"};
    call.serving->Enter();
    const ScopeExit leave([&] { call.serving->Leave(); });
    (*call.function)(&served);
    reply = std::move(served.reply);
  }
  call.reply(std::move(reply));
}

Status ToolSet::Add(server::Tool tool, std::shared_ptr<const ToolFunction> function) {
  nlohmann::json entry = {{"name", tool.name}, {"description", tool.description}};
  nlohmann::json schema = nlohmann::json::parse(tool.schema.empty() ? "{}" : tool.schema, nullptr, false);
  entry["schema"] = schema.is_discarded() ? nlohmann::json(nullptr) : std::move(schema);
  nlohmann::json document;
  document["tools"] = nlohmann::json::array({std::move(entry)});
  auto read = server::ReadTools(document);
  if (!read) return Err(ErrorCode::kInvalid, "{}", read.error().message);
  constexpr size_t kMostTools = 256;
  std::vector<server::Tool> list = list_;
  std::erase_if(list, [&](const server::Tool& each) { return each.name == tool.name; });
  if (list.size() >= kMostTools) return Err(ErrorCode::kExhausted, "a session has at most {} tools", kMostTools);
  list.push_back(std::move(read->front()));
  auto registered = tools_->Register(*this, list);
  if (!registered) return Err(ErrorCode::kExhausted, "{}", registered.error().message);
  list_ = std::move(list);
  functions_[tool.name] = std::move(function);
  return {};
}

void ToolSet::Push(const nlohmann::ordered_json& message) {
  if (message["type"] != "call") return;
  const uint64_t number = message["call"].get<uint64_t>();
  ToolCall call;
  call.name = message["tool"].get<std::string>();
  call.arguments = message["arguments"].get<std::string>();
  auto function = functions_.find(call.name);
  if (function == functions_.end()) return;
  call.function = function->second;
  call.reply = [give = post, number](run::HostReply reply) { give(number, std::move(reply)); };
  hand_on_(std::move(call));
}

namespace {

using Value = calls::Value;

const Value& Of(const cella_value* value) { return *reinterpret_cast<const Value*>(value); }
const cella_value* Part(const Value* value) { return reinterpret_cast<const cella_value*>(value); }

}  // namespace
}  // namespace cella::library

extern "C" {

bool cella_tool_add(cella_session* session, const char* name, const char* description, const char* schema,
                    cella_tool tool, void* context, void (*release)(void*), cella_error** error) {
  return Guarded(error,
                 [&]() -> Status {
                   auto function = std::make_shared<const ToolFunction>(tool, context, release);
                   if (session == nullptr) return Err(ErrorCode::kInvalid, "there is no session");
                   if (!*function) return Err(ErrorCode::kInvalid, "there is no function");
                   server::Tool entry{TextOf(name), TextOf(description), TextOf(schema)};
                   auto add = [core = session->core, entry, function]() -> async::Task<Status> {
                     co_return core->AddTool(entry, function);
                   };
                   return session->host->Call<void>(std::move(add));
                 })
      .has_value();
}

const char* cella_call_arguments(const cella_call* call, size_t* size) {
  if (size != nullptr) *size = call->text.size();
  return call->text.c_str();
}
size_t cella_call_argument_count(const cella_call* call) {
  return call->arguments.positional.size() + call->arguments.named.size();
}
const cella_value* cella_call_argument(const cella_call* call, size_t position, const char* name) {
  const calls::Arguments& arguments = call->arguments;
  if (name != nullptr) return Part(arguments.Find(position, name));
  if (position < arguments.positional.size()) return Part(&arguments.positional[position]);
  position -= arguments.positional.size();
  return position < arguments.named.size() ? Part(&arguments.named[position].second) : nullptr;
}
void cella_call_return(cella_call* call, const char* json, size_t size) {
  call->reply.value = TextOf(json, size);
  call->reply.error.reset();
  if (nlohmann::json::accept(*call->reply.value)) return;
  call->reply.value.reset();
  call->reply.error = run::HostError{"ToolError", "the tool's result is no JSON"};
}
void cella_call_fail(cella_call* call, const char* message) {
  call->reply.value.reset();
  call->reply.error = run::HostError{"ToolError", TextOf(message)};
}

cella_value_kind cella_value_get_kind(const cella_value* value) {
  switch (Of(value).type()) {
    case Value::value_t::boolean: return CELLA_VALUE_BOOLEAN;
    case Value::value_t::number_integer:
    case Value::value_t::number_unsigned: return CELLA_VALUE_INTEGER;
    case Value::value_t::number_float: return CELLA_VALUE_NUMBER;
    case Value::value_t::string: return CELLA_VALUE_TEXT;
    case Value::value_t::array: return CELLA_VALUE_LIST;
    case Value::value_t::object: return CELLA_VALUE_OBJECT;
    default: return CELLA_VALUE_NULL;
  }
}
bool cella_value_boolean(const cella_value* value) { return Of(value).is_boolean() && Of(value).get<bool>(); }
int64_t cella_value_integer(const cella_value* value) {
  if (Of(value).is_number_float()) return static_cast<int64_t>(cella_value_number(value));
  return Of(value).is_number() ? Of(value).get<int64_t>() : 0;
}
double cella_value_number(const cella_value* value) { return Of(value).is_number() ? Of(value).get<double>() : 0; }
const char* cella_value_text(const cella_value* value, size_t* size) {
  const auto* text = Of(value).get_ptr<const std::string*>();
  if (size != nullptr) *size = text != nullptr ? text->size() : 0;
  return text != nullptr ? text->c_str() : nullptr;
}
size_t cella_value_count(const cella_value* value) { return Of(value).is_structured() ? Of(value).size() : 0; }
const cella_value* cella_value_at(const cella_value* value, size_t index) {
  if (index >= cella_value_count(value)) return nullptr;
  return Part(&*std::next(Of(value).begin(), static_cast<ptrdiff_t>(index)));
}
const char* cella_value_key(const cella_value* value, size_t index, size_t* size) {
  const auto* object = Of(value).get_ptr<const Value::object_t*>();
  const bool has_key = object != nullptr && index < object->size();
  if (size != nullptr) *size = 0;
  if (!has_key) return nullptr;
  const std::string& key = std::next(object->begin(), static_cast<ptrdiff_t>(index))->first;
  if (size != nullptr) *size = key.size();
  return key.c_str();
}

}  // extern "C"
