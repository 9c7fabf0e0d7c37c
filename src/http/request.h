// The head of a request, parsed and checked. Its views live as long as the exchange that it belongs to.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/header.h"
#include "http/parser.h"
#include "http/target.h"

namespace cella::http {

class Request {
 public:
  Request() : parser_(Parser::Kind::kRequest) {}
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  // `head` ends with its blank line. Forgets the request before, keeps its memory.
  Status Parse(std::string_view head);

  std::string_view method() const { return parser_.method(); }
  std::string_view raw_target() const { return parser_.target(); }
  // The path and the query, decoded; see Target for what was refused on the way.
  const Target& target() const { return target_; }
  std::span<const std::string_view> segments() const { return target_.segments(); }
  std::optional<std::string_view> parameter(std::string_view name) const { return target_.parameter(name); }

  std::span<const Header> headers() const { return parser_.headers(); }
  // The first of that name, in any case.
  std::optional<std::string_view> header(std::string_view name) const { return FindHeader(headers(), name); }

  bool is_http_1_0() const { return parser_.is_http_1_0(); }
  bool is_head() const { return method() == "HEAD"; }
  bool keeps_alive() const { return parser_.keeps_alive(); }
  bool expects_continue() const { return expects_continue_; }
  std::optional<uint64_t> content_length() const { return parser_.content_length(); }

  Parser& parser() { return parser_; }  // for the connection, which reads the body
  const Parser& parser() const { return parser_; }
  // Gives back memory that an unusually large head took.
  void Shrink();

 private:
  std::string head_;
  Parser parser_;
  Target target_;
  bool expects_continue_ = false;
};

}  // namespace cella::http
