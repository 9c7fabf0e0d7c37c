#include "http/client.h"

#include <boost/asio/this_coro.hpp>

#include "async/deadline.h"
#include "base/units.h"
#include "http/connect.h"
#include "http/header.h"
#include "http/input_buffer.h"
#include "http/parser.h"
#include "http/stream.h"

namespace cella::http {

using async::Clock;
using async::Task;

namespace {

constexpr size_t kMaxHead = size_t{64} << 10;
constexpr size_t kBodyBuffer = size_t{64} << 10;

bool IsLineSafe(std::string_view text) {
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\t') return false;
  }
  return true;
}

Result<std::string> FormatRequest(const Url& url, const ClientRequest& request) {
  if (!request.target.starts_with('/') || request.target.find(' ') != std::string::npos ||
      !IsLineSafe(request.target)) {
    return Err(ErrorCode::kInvalid, "'{}' is not the target of a request", request.target);
  }
  std::string head = fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\n", request.method, url.prefix, request.target,
                                 url.address.is_unix() ? "localhost" : url.address.ToString());
  for (const auto& [name, value] : request.headers) {
    if (!IsLineSafe(name) || !IsLineSafe(value)) {
      return Err(ErrorCode::kInvalid, "the header '{}' has a character that headers cannot have", name);
    }
    head += fmt::format("{}: {}\r\n", name, value);
  }
  if (!request.body.empty() || request.method == "POST" || request.method == "PUT") {
    head += fmt::format("Content-Length: {}\r\n", request.body.size());
  }
  head += "\r\n";
  return head;
}

class OwnedStream final : public UpgradedStream {
 public:
  // `input` was read behind the head.
  OwnedStream(std::unique_ptr<Stream> stream, InputBuffer input)
      : stream_(std::move(stream)), input_(std::move(input)) {}

  Task<Result<size_t>> Read(std::span<char> buffer) override {
    if (!input_.empty()) {
      const size_t size = input_.bytes().copy(buffer.data(), buffer.size());
      input_.Consume(size);
      co_return size;
    }
    co_return co_await stream_->Read(buffer);
  }
  Task<Status> Write(std::string_view bytes, std::chrono::nanoseconds patience) override {
    co_return co_await stream_->Write({bytes, {}, {}}, patience);
  }
  void Kill() override { stream_->Kill(Stream::Manner::kPlain); }

 private:
  std::unique_ptr<Stream> stream_;
  InputBuffer input_;
};

}  // namespace

std::string Url::ToString() const {
  if (address.is_unix()) return address.ToString();
  return fmt::format("{}://{}{}", is_encrypted ? "https" : "http", address.ToString(), prefix);
}

Result<Url> ParseUrl(std::string_view text) {
  Url url;
  std::string_view rest = text;
  if (text.starts_with("unix:")) {
    TRY(url.address, ParseAddress(text));
    return url;
  }
  if (text.starts_with("https://")) {
    url.is_encrypted = true;
    rest.remove_prefix(8);
  } else if (text.starts_with("http://")) {
    rest.remove_prefix(7);
  } else {
    return Err(ErrorCode::kInvalid, "'{}' is not an address of a server: use unix:PATH, http://HOST:PORT or https://…",
               text);
  }
  if (rest.find_first_of("?#@ ") != rest.npos || !IsLineSafe(rest)) {
    return Err(ErrorCode::kInvalid, "'{}' has more than a scheme, a host, a port and a path", text);
  }
  size_t slash = rest.find('/');
  std::string host(rest.substr(0, slash));
  if (slash != rest.npos) url.prefix = rest.substr(slash);
  while (url.prefix.ends_with('/')) url.prefix.pop_back();
  size_t bracket = host.rfind(']');
  const bool has_port = host.find(':', bracket == host.npos ? 0 : bracket) != host.npos;
  if (host.empty() || host.starts_with(':')) return Err(ErrorCode::kInvalid, "'{}' has no host", text);
  TRY(url.address, ParseAddress(has_port ? host : host + (url.is_encrypted ? ":443" : ":80")));
  return url;
}

std::optional<std::string_view> ClientResponse::header(std::string_view name) const {
  for (const auto& [one, value] : headers) {
    if (EqualsIgnoringCase(one, name)) return value;
  }
  return std::nullopt;
}

class Client::Impl {
 public:
  Impl(async::Loop& loop, Url url, ClientOptions options)
      : loop_(loop), url_(std::move(url)), options_(std::move(options)), parser_(Parser::Kind::kResponse) {}

  Task<Result<ClientResponse>> Start(const ClientRequest& request);
  Task<Result<ClientResponse>> Fetch(const ClientRequest& request);
  Task<Result<std::optional<std::string>>> NextLine();
  Task<Result<std::string>> NextBytes();
  Task<Result<Upgraded>> Upgrade(const ClientRequest& request);

 private:
  enum class Expected { kAnswer, kUpgrade };
  Task<Result<ClientResponse>> Exchange(const ClientRequest& request, Expected expected);
  Task<Result<ClientResponse>> ReadBody(ClientResponse response);
  Task<Status> Connect();
  Task<Result<UniqueFd>> ConnectSocket();
  Task<Status> Shake();
  Task<Result<ClientResponse>> ReadHead(bool no_body, Expected expected);
  Task<Status> ReadMore(size_t capacity);
  Task<Result<std::string_view>> NextPiece();
  Error Explain(Error error) const;

  async::Loop& loop_;
  const Url url_;
  const ClientOptions options_;
  std::unique_ptr<Stream> stream_;
  InputBuffer input_;
  std::string head_;
  Parser parser_;
  size_t piece_ = 0;
  std::string line_;         // the beginning of the next one
  size_t line_looked_ = 0;   // of it, without a line end
  bool peer_ended_ = false;  // in order, not by a reset
  bool is_complete_ = true;  // the answer before was read to its end
};

// What the errno of a failed connect means to a user of the server.
Error Client::Impl::Explain(Error error) const {
  const std::string where = url_.ToString();
  switch (error.sys_errno) {
    case ENOENT:
    case ECONNREFUSED:
      error.message = fmt::format("no server answers on {}: {}", where, options_.remedy);
      error.code = ErrorCode::kNotFound;
      break;
    case EACCES:
    case EPERM: error.message = fmt::format("no permission for {}: it belongs to another user", where); break;
    case EAGAIN: error.message = fmt::format("the server on {} is too busy to accept", where); break;
    default: error = std::move(error).WithContext(fmt::format("connect to {}", where)); break;
  }
  return error;
}

Task<Result<UniqueFd>> Client::Impl::ConnectSocket() {
  auto connected =
      co_await async::WithDeadline(http::Connect(loop_, url_.address), Clock::now() + options_.connect_timeout);
  if (!connected) {
    co_return Err(ErrorCode::kClosed, "no server answered on {} within {}", url_.ToString(),
                  FormatDuration(options_.connect_timeout));
  }
  if (!*connected) co_return std::unexpected(Explain(std::move(connected->error())));
  co_return std::move(*connected);
}

Task<Status> Client::Impl::Shake() {
  CO_TRY(Tls tls, Tls::ForClient(options_.ca_file, options_.certificate));
  CO_TRY(TlsSession session, TlsSession::Connect(tls, stream_->fd(), url_.address.host));
  auto shaken =
      co_await async::WithDeadline(stream_->Handshake(std::move(session)), Clock::now() + options_.connect_timeout);
  if (!shaken) co_return Err(ErrorCode::kClosed, "the TLS handshake with {} took too long", url_.ToString());
  if (!*shaken) co_return std::unexpected(std::move(shaken->error()).WithContext(url_.ToString()));
  co_return Status{};
}

Task<Status> Client::Impl::Connect() {
  const bool usable = stream_ && is_complete_ && input_.empty() && !stream_->PeerIsGone();
  if (usable) co_return Status{};
  stream_.reset();
  input_ = InputBuffer();
  auto fd = co_await ConnectSocket();
  CO_TRY(UniqueFd socket, std::move(fd));
  CO_TRY(stream_, Stream::Create(loop_, std::move(socket), nullptr));
  if (!url_.is_encrypted) co_return Status{};
  Status shaken = co_await Shake();
  if (!shaken) stream_.reset();
  co_return shaken;
}

Task<Status> Client::Impl::ReadMore(size_t capacity) {
  if (!stream_) co_return Err(ErrorCode::kInvalid, "no answer is being read");
  auto buffer = input_.Prepare(capacity);
  auto read = co_await async::WithDeadline(stream_->Read(buffer), Clock::now() + options_.silence);
  if (!read) {
    stream_.reset();
    co_return Err(ErrorCode::kClosed, "the server on {} said nothing for {}", url_.ToString(),
                  FormatDuration(options_.silence));
  }
  if (*read && **read > 0) {
    input_.Commit(**read);
    co_return Status{};
  }
  peer_ended_ = read->has_value();
  stream_.reset();
  co_return Err(ErrorCode::kClosed, "the connection to {} ended before the answer was complete", url_.ToString());
}

Task<Result<ClientResponse>> Client::Impl::ReadHead(bool no_body, Expected expected) {
  size_t looked_at = 0;
  for (;;) {
    CO_TRY(size_t length, FindHead(input_.bytes(), looked_at));
    if (length == 0) {
      if (input_.size() >= kMaxHead) co_return Err(ErrorCode::kInvalid, "{} sent too long a head", url_.ToString());
      Status read = co_await ReadMore(input_.size() < InputBuffer::kSmall ? InputBuffer::kSmall : kMaxHead);
      CO_TRY_VOID(read);
      continue;
    }
    head_.assign(input_.bytes().substr(0, length));
    input_.Consume(length);
    looked_at = 0;
    CO_TRY_VOID(parser_.ParseHead(head_, no_body ? Parser::Body::kNone : Parser::Body::kByHead));
    const bool switches = parser_.status() == 101 && expected == Expected::kUpgrade;
    if (parser_.status() >= 200 || switches) break;  // else an interim answer
  }
  ClientResponse response;
  response.status = parser_.status();
  for (const Header& header : parser_.headers()) response.headers.emplace_back(header.name, header.value);
  co_return response;
}

Task<Result<ClientResponse>> Client::Impl::Start(const ClientRequest& request) {
  return Exchange(request, Expected::kAnswer);
}

Task<Result<ClientResponse>> Client::Impl::Exchange(const ClientRequest& request, Expected expected) {
  co_await boost::asio::this_coro::throw_if_cancelled(false);
  CO_TRY(std::string head, FormatRequest(url_, request));
  Status connected = co_await Connect();
  CO_TRY_VOID(connected);
  is_complete_ = peer_ended_ = false;
  line_.clear();
  line_looked_ = piece_ = 0;
  auto written = co_await async::WithDeadline(stream_->Write({head, request.body, {}}, options_.silence),
                                              Clock::now() + options_.silence);
  // A server that refuses early stops reading; what it says is worth more than that our write failed.
  (void)written;
  auto response = co_await ReadHead(request.method == "HEAD", expected);
  if (!response) stream_.reset();
  co_return response;
}

// Empty at the end.
Task<Result<std::string_view>> Client::Impl::NextPiece() {
  input_.Consume(std::exchange(piece_, 0));
  while (!parser_.is_done()) {
    CO_TRY(Parser::Piece piece, parser_.ParseBody(input_.bytes()));
    if (!piece.body.empty()) {
      piece_ = piece.consumed;
      co_return piece.body;
    }
    input_.Consume(piece.consumed);
    if (parser_.is_done()) break;
    if (input_.size() >= kMaxHead) co_return Err(ErrorCode::kInvalid, "{} sent a malformed body", url_.ToString());
    Status read = co_await ReadMore(kBodyBuffer);
    // A body that lasts until the connection ends has ended now.
    const bool ends = !read && peer_ended_ && parser_.FinishAtEnd();
    if (!read && !ends) co_return std::unexpected(std::move(read.error()));
  }
  is_complete_ = true;
  if (!parser_.keeps_alive()) stream_.reset();
  co_return std::string_view();
}

Task<Result<ClientResponse>> Client::Impl::Fetch(const ClientRequest& request) {
  auto response = co_await Start(request);
  if (!response) co_return response;
  co_return co_await ReadBody(std::move(*response));
}

Task<Result<Client::Upgraded>> Client::Impl::Upgrade(const ClientRequest& request) {
  auto response = co_await Exchange(request, Expected::kUpgrade);
  if (!response) co_return std::unexpected(std::move(response.error()));
  if (response->status != 101) {
    auto whole = co_await ReadBody(std::move(*response));
    if (!whole) co_return std::unexpected(std::move(whole.error()));
    co_return Upgraded{std::move(*whole), nullptr};
  }
  auto stream = std::make_unique<OwnedStream>(std::move(stream_), std::exchange(input_, InputBuffer()));
  is_complete_ = true;
  co_return Upgraded{std::move(*response), std::move(stream)};
}

Task<Result<ClientResponse>> Client::Impl::ReadBody(ClientResponse response) {
  for (;;) {
    auto piece = co_await NextPiece();
    CO_TRY(std::string_view bytes, std::move(piece));
    if (bytes.empty()) co_return response;
    if (bytes.size() > options_.max_body - response.body.size()) {
      stream_.reset();
      co_return Err(ErrorCode::kExhausted, "the answer of {} has more than {}", url_.ToString(),
                    FormatByteSize(options_.max_body));
    }
    response.body += bytes;
  }
}

Task<Result<std::optional<std::string>>> Client::Impl::NextLine() {
  co_await boost::asio::this_coro::throw_if_cancelled(false);
  for (;;) {
    size_t end = line_.find('\n', line_looked_);
    if (end != line_.npos) {
      std::string line = line_.substr(0, end);
      line_.erase(0, end + 1);
      line_looked_ = 0;
      co_return line;
    }
    line_looked_ = line_.size();
    auto piece = co_await NextPiece();
    CO_TRY(std::string_view bytes, std::move(piece));
    if (bytes.empty()) {
      line_looked_ = 0;
      if (line_.empty()) co_return std::nullopt;
      co_return std::exchange(line_, {});
    }
    if (bytes.size() > options_.max_body - line_.size()) {
      stream_.reset();
      co_return Err(ErrorCode::kExhausted, "a line of {} has more than {}", url_.ToString(),
                    FormatByteSize(options_.max_body));
    }
    line_ += bytes;
  }
}

Task<Result<std::string>> Client::Impl::NextBytes() {
  co_await boost::asio::this_coro::throw_if_cancelled(false);
  auto piece = co_await NextPiece();
  CO_TRY(std::string_view bytes, std::move(piece));
  co_return std::string(bytes);
}

Client::Client(async::Loop& loop, Url url, ClientOptions options)
    : impl_(std::make_unique<Impl>(loop, std::move(url), std::move(options))) {}
Client::Client(Client&&) noexcept = default;
Client::~Client() = default;

Task<Result<ClientResponse>> Client::Fetch(const ClientRequest& request) { return impl_->Fetch(request); }
Task<Result<ClientResponse>> Client::Start(const ClientRequest& request) { return impl_->Start(request); }
Task<Result<std::optional<std::string>>> Client::NextLine() { return impl_->NextLine(); }
Task<Result<std::string>> Client::NextBytes() { return impl_->NextBytes(); }
Task<Result<Client::Upgraded>> Client::Upgrade(const ClientRequest& request) { return impl_->Upgrade(request); }

}  // namespace cella::http
