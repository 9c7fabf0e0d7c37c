// One HTTP/1 message taken apart: its head at once, its body piece by piece. Beast's parser does the work and stays in
// the .cc; what it would let through and what is a way to smuggle a request is refused before it. Internal to http.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "http/header.h"

namespace cella::http {

// The length of the head at the beginning of `bytes`, its blank line included; 0 when more is needed. `looked_at` is
// where the last call stopped, 0 for a new head. A line that ends without CR, or that continues the one before it, is
// an error: intermediaries disagree about what those mean.
Result<size_t> FindHead(std::string_view bytes, size_t& looked_at);

class Parser {
 public:
  enum class Kind { kRequest, kResponse };
  enum class Body { kByHead, kNone };  // kNone: the response to HEAD, whatever its head says

  explicit Parser(Kind kind);
  Parser(Parser&&) noexcept;
  ~Parser();

  // `head` as FindHead measured it; everything below points into it. Forgets the message before.
  Status ParseHead(std::string_view head, Body body = Body::kByHead);

  std::string_view method() const;
  std::string_view target() const;
  int status() const;
  bool is_http_1_0() const;
  std::span<const Header> headers() const;
  bool keeps_alive() const;    // what the peer said, or its version's default
  bool wants_upgrade() const;  // "Connection: upgrade"
  std::optional<uint64_t> content_length() const;
  bool is_chunked() const;
  bool is_done() const;  // head and body

  struct Piece {
    size_t consumed = 0;
    std::string_view body;  // of the consumed bytes
  };
  // The next piece of the body in `bytes`; nothing consumed: more is needed.
  Result<Piece> ParseBody(std::string_view bytes);
  // The connection ended: fine only for a body that ends with it.
  Status FinishAtEnd();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cella::http
