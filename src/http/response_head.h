// The head of an answer as bytes. Internal to http.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/header.h"

namespace cella::http {

std::string_view ReasonPhrase(int status);

// 1xx, 204 and 304 have none, whatever the handler says.
bool StatusHasBody(int status);

enum class Framing { kNone, kLength, kChunked, kUntilClose };
enum class After { kKeepAlive, kKeepAliveOfHttp10, kClose };

struct ResponseHead {
  int status = 200;
  Headers headers;
  Framing framing = Framing::kNone;
  uint64_t length = 0;
  After after = After::kKeepAlive;
};

// Replaces `out`. What is ours to say (length, encoding, connection, date) is not taken from `headers`; bytes that
// would end a line early become spaces, since values may quote a client.
void FormatHead(const ResponseHead& head, std::string_view date, std::string& out);

// "Sun, 06 Nov 1994 08:49:37 GMT", formatted anew once in a second.
class DateText {
 public:
  std::string_view Now();

 private:
  int64_t second_ = -1;
  char text_[32] = "";
};

// {"error": {"code", "message", "hint"}}; without a hint when it is empty.
std::string ErrorBody(std::string_view code, std::string_view message, std::string_view hint = {});

}  // namespace cella::http
