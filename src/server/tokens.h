// Who a bearer token belongs to. Tokens are kept as their SHA-256 only, compared in constant time, and no message ever
// shows one. Not thread-safe; lives on the loop.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"

namespace cella::server {

// The lines of a token file: NAME:TOKEN, NAME:sha256:HEX, or TOKEN alone, which is the client "default". Empty lines
// and those that begin with '#' are passed over. An immutable value.
class TokenSet {
 public:
  // `origin` is what messages call the text. kInvalid: a line that is none of these, or a name or token that is there
  // twice; the message has the line's number and nothing of the line, which may be a secret.
  static Result<TokenSet> Parse(std::string_view text, std::string_view origin);

  // kPermission: others could read or replace it (only its owner, who is us or root, may).
  static Result<TokenSet> Load(const std::string& path);

  // The client whose token it is, or nullptr. Takes as long for every token of a length. Valid as long as the set.
  const std::string* Find(std::string_view token) const;

  struct Entry {
    std::string client;
    Sha256Digest digest;
    size_t line = 0;      // in the file, from 1
    bool hashed = false;  // the file has only the hash
  };
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

// The most that a token file may hold.
inline constexpr uint64_t kMaxTokenFile = uint64_t{1} << 20;

// The tokens of a running server.
class Tokens {
 public:
  explicit Tokens(std::string path) : path_(std::move(path)) {}
  // Of no file.
  explicit Tokens(TokenSet set) : set_(std::move(set)) {}

  // Reads the file, if there is one, again. What was there before stays when that fails: a slip of the editor locks
  // no client out.
  Status Reload();

  const std::string* Find(std::string_view token) const { return set_.Find(token); }
  size_t size() const { return set_.entries().size(); }

 private:
  std::string path_;
  TokenSet set_;
};

// "Bearer TOKEN" of an Authorization header; empty: it is none.
std::string_view BearerToken(std::string_view header);

// The content of a token file, if only its owner can read and change it.
Result<std::string> ReadTokenFile(const std::string& path);

}  // namespace cella::server
