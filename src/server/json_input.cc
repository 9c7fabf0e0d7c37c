#include "server/json_input.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "server/answer.h"
#include "server/value_order.h"

namespace cella::server {
namespace {

using nlohmann::json;

// A batch may have 10,000 snippets of some ten values. A larger text is refused where it exceeds the number.
constexpr size_t kMaxNodes = 250'000;
constexpr size_t kMaxDepth = 16;

}  // namespace

std::unexpected<ApiError> MustBe(std::string_view key, std::string_view what, const json& value) {
  std::string_view got = "null";
  switch (value.type()) {
    case json::value_t::array: got = "a list"; break;
    case json::value_t::object: got = "an object"; break;
    case json::value_t::string: got = "a string"; break;
    case json::value_t::boolean: got = value.get<bool>() ? "true" : "false"; break;
    case json::value_t::number_integer:
    case json::value_t::number_unsigned:
    case json::value_t::number_float: got = "a number"; break;
    default: break;
  }
  return Invalid(fmt::format("{}: must be {}, got {}", key, what, got));
}

Answer<json> ParseJsonObject(std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos) return json::object();
  // Of equal keys most readers keep the last one; a proxy or a log that keeps the first shows another request.
  auto parsed = ReadJson(body, {.bytes = body.size(), .depth = kMaxDepth, .nodes = kMaxNodes, .unique_keys = true});
  if (!parsed) return Invalid("the body: " + parsed.error().message);
  if (!parsed->is_object()) return Invalid("the body is not a JSON object");
  KeepOrderOfVariables(body, &*parsed);
  return std::move(*parsed);
}

async::Task<Answer<json>> ParseJsonObject(async::BlockingPool& pool, std::string_view body) {
  if (body.size() <= kReadAtOnce) co_return ParseJsonObject(body);
  auto parse = [body]() -> Result<Answer<json>> { return ParseJsonObject(body); };
  auto parsed = co_await pool.Run(parse);
  if (!parsed) co_return Refused(parsed.error());
  co_return std::move(*parsed);
}

async::Task<std::optional<json>> ReadJsonBody(async::BlockingPool& pool, http::Exchange& exchange, uint64_t limit) {
  auto body = co_await exchange.ReadBody(limit);
  if (!body) co_return std::nullopt;
  auto parsed = co_await ParseJsonObject(pool, *body);
  if (!parsed) {
    co_await Refuse(exchange, std::move(parsed.error()));
    co_return std::nullopt;
  }
  co_return std::move(*parsed);
}

}  // namespace cella::server
