#include "http/parser.h"

#include <boost/beast/http/basic_parser.hpp>
#include <cstring>
#include <limits>
#include <variant>
#include <vector>

namespace cella::http {

namespace beast_http = boost::beast::http;
using ErrorCodeRef = boost::beast::error_code&;
using BeastView = boost::beast::string_view;

namespace {

struct Sink {
  std::string_view method;
  std::string_view target;
  int status = 0;
  int version = 11;
  std::vector<Header> headers;
  bool in_trailer = false;
  std::string_view piece;
};

std::string_view ToStd(BeastView view) { return {view.data(), view.size()}; }

// Beast's callbacks, kept as views. No allocation but the vector of headers, which is used again.
template <bool kIsRequest>
class Callbacks final : public beast_http::basic_parser<kIsRequest> {
 public:
  explicit Callbacks(Sink& sink) : sink_(sink) {
    this->header_limit(std::numeric_limits<uint32_t>::max());  // FindHead's caller has the limit
    this->body_limit(boost::none);                             // and the reader of the body this one
  }

 private:
  void on_request_impl(beast_http::verb, BeastView method, BeastView target, int version, ErrorCodeRef) override {
    sink_.method = ToStd(method);
    sink_.target = ToStd(target);
    sink_.version = version;
  }
  void on_response_impl(int status, BeastView, int version, ErrorCodeRef) override {
    sink_.status = status;
    sink_.version = version;
  }
  void on_field_impl(beast_http::field, BeastView name, BeastView value, ErrorCodeRef) override {
    // A trailer comes after the decisions that its fields could change, and points into bytes that move on.
    if (!sink_.in_trailer) sink_.headers.push_back({ToStd(name), ToStd(value)});
  }
  void on_header_impl(ErrorCodeRef) override { sink_.in_trailer = true; }
  void on_body_init_impl(const boost::optional<uint64_t>&, ErrorCodeRef) override {}
  size_t on_body_impl(BeastView body, ErrorCodeRef) override {
    sink_.piece = ToStd(body);
    return body.size();
  }
  void on_chunk_header_impl(uint64_t, BeastView, ErrorCodeRef) override {}
  size_t on_chunk_body_impl(uint64_t, BeastView body, ErrorCodeRef) override {
    sink_.piece = ToStd(body);
    return body.size();
  }
  void on_finish_impl(ErrorCodeRef) override {}

  Sink& sink_;
};

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// The shapes that two parsers in a row could read differently.
Status CheckFraming(const Sink& sink) {
  int lengths = 0, encodings = 0;
  for (const Header& header : sink.headers) {
    if (EqualsIgnoringCase(header.name, "content-length")) {
      ++lengths;
      if (!IsNumber(header.value)) return Err(ErrorCode::kInvalid, "Content-Length is not a number");
    } else if (EqualsIgnoringCase(header.name, "transfer-encoding")) {
      ++encodings;
      if (!EqualsIgnoringCase(header.value, "chunked")) {
        return Err(ErrorCode::kUnsupported, "a Transfer-Encoding other than chunked");
      }
    }
  }
  if (lengths > 1) return Err(ErrorCode::kInvalid, "more than one Content-Length");
  if (encodings > 1) return Err(ErrorCode::kInvalid, "more than one Transfer-Encoding");
  if (lengths + encodings > 1) return Err(ErrorCode::kInvalid, "both Content-Length and Transfer-Encoding");
  if (encodings > 0 && sink.version < 11) return Err(ErrorCode::kInvalid, "Transfer-Encoding in HTTP/1.0");
  return {};
}

}  // namespace

Result<size_t> FindHead(std::string_view bytes, size_t& looked_at) {
  while (looked_at < bytes.size()) {
    const void* found = std::memchr(bytes.data() + looked_at, '\n', bytes.size() - looked_at);
    if (found == nullptr) {
      looked_at = bytes.size();
      return size_t{0};
    }
    const size_t at = static_cast<size_t>(static_cast<const char*>(found) - bytes.data());
    if (at == 0 || bytes[at - 1] != '\r') return Err(ErrorCode::kInvalid, "a line that does not end with CR LF");
    if (at >= 3 && bytes[at - 2] == '\n') return at + 1;
    // Whether a line is continued shows in the byte behind its end.
    if (at + 1 == bytes.size()) {
      looked_at = at;
      return size_t{0};
    }
    if (bytes[at + 1] == ' ' || bytes[at + 1] == '\t') return Err(ErrorCode::kInvalid, "a folded header line");
    looked_at = at + 1;
  }
  return size_t{0};
}

struct Parser::Impl {
  Kind kind;
  Sink sink;
  std::variant<std::monostate, Callbacks<true>, Callbacks<false>> parser;

  // Calls `use` with the parser of either kind; nothing before the first head.
  template <typename T, typename F>
  T With(T otherwise, F use) {
    if (auto* request = std::get_if<Callbacks<true>>(&parser)) return use(*request);
    if (auto* response = std::get_if<Callbacks<false>>(&parser)) return use(*response);
    return otherwise;
  }

  Result<size_t> Put(std::string_view bytes) {
    boost::beast::error_code error;
    auto put = [&](auto& one) { return one.put(boost::asio::const_buffer(bytes.data(), bytes.size()), error); };
    size_t consumed = With(size_t{0}, put);
    if (error && error != beast_http::error::need_more) return Err(ErrorCode::kInvalid, "{}", error.message());
    return consumed;
  }
};

Parser::Parser(Kind kind) : impl_(std::make_unique<Impl>(kind)) {}
Parser::Parser(Parser&&) noexcept = default;
Parser::~Parser() = default;

Status Parser::ParseHead(std::string_view head, Body body) {
  Sink& sink = impl_->sink;
  sink.method = sink.target = {};
  sink.headers.clear();
  sink.in_trailer = false;
  if (impl_->kind == Kind::kRequest) {
    impl_->parser.emplace<Callbacks<true>>(sink);
  } else {
    impl_->parser.emplace<Callbacks<false>>(sink).skip(body == Body::kNone);
  }
  TRY(size_t consumed, impl_->Put(head));
  if (consumed != head.size()) return Err(ErrorCode::kInvalid, "an incomplete head");
  return CheckFraming(sink);
}

std::string_view Parser::method() const { return impl_->sink.method; }
std::string_view Parser::target() const { return impl_->sink.target; }
int Parser::status() const { return impl_->sink.status; }
bool Parser::is_http_1_0() const { return impl_->sink.version < 11; }
std::span<const Header> Parser::headers() const { return impl_->sink.headers; }

bool Parser::keeps_alive() const {
  return impl_->With(false, [](const auto& parser) { return parser.keep_alive(); });
}

bool Parser::wants_upgrade() const {
  return impl_->With(false, [](const auto& parser) { return parser.upgrade(); });
}

std::optional<uint64_t> Parser::content_length() const {
  auto get = [](const auto& parser) -> std::optional<uint64_t> {
    auto length = parser.content_length();
    if (!length) return std::nullopt;
    return *length;
  };
  return impl_->With(std::optional<uint64_t>(), get);
}

bool Parser::is_chunked() const {
  return impl_->With(false, [](const auto& parser) { return parser.chunked(); });
}

bool Parser::is_done() const {
  return impl_->With(true, [](const auto& parser) { return parser.is_done(); });
}

Result<Parser::Piece> Parser::ParseBody(std::string_view bytes) {
  Piece piece;
  // Beast takes one step per call: the line of a chunk, or what there is of its data.
  while (!is_done() && piece.consumed < bytes.size()) {
    impl_->sink.piece = {};
    TRY(size_t consumed, impl_->Put(bytes.substr(piece.consumed)));
    piece.consumed += consumed;
    piece.body = impl_->sink.piece;
    if (consumed == 0 || !piece.body.empty()) break;
  }
  return piece;
}

Status Parser::FinishAtEnd() {
  boost::beast::error_code error;
  auto finish = [&](auto& parser) {
    parser.put_eof(error);
    return true;
  };
  (void)impl_->With(true, finish);
  if (error) return Err(ErrorCode::kClosed, "the connection ended within a message");
  return {};
}

}  // namespace cella::http
