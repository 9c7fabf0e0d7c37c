#include "http/target.h"

#include <array>

namespace cella::http {
namespace {

constexpr size_t kMaxSegments = 128;
constexpr size_t kMaxParameters = 128;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// What a decoded segment must not be, nor any part of it between slashes.
Status CheckSegment(std::string_view segment) {
  for (;;) {
    size_t slash = segment.find('/');
    std::string_view name = segment.substr(0, slash);
    if (name.empty()) return Err(ErrorCode::kInvalid, "the path has an empty segment");
    if (name == "." || name == "..") return Err(ErrorCode::kInvalid, "the path has a segment '{}'", name);
    if (slash == segment.npos) return {};
    segment.remove_prefix(slash + 1);
  }
}

}  // namespace

bool IsUtf8(std::string_view text) {
  struct Form {
    unsigned char mask, lead;
    size_t more;
    unsigned least;
  };
  static constexpr std::array<Form, 3> kForms = {
      {{0xe0, 0xc0, 1, 0x80}, {0xf0, 0xe0, 2, 0x800}, {0xf8, 0xf0, 3, 0x10000}}};
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    if (first < 0x80) {
      ++i;
      continue;
    }
    const Form* form = nullptr;
    for (const Form& candidate : kForms) {
      if ((first & candidate.mask) == candidate.lead) form = &candidate;
    }
    if (form == nullptr || text.size() - i <= form->more) return false;
    unsigned value = first & static_cast<unsigned char>(~form->mask);
    for (size_t k = 1; k <= form->more; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xc0) != 0x80) return false;
      value = value << 6 | (next & 0x3f);
    }
    if (value < form->least || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) return false;
    i += form->more + 1;
  }
  return true;
}

Result<std::string_view> Target::Decode(std::string_view text, Part part) {
  const size_t start = decoded_.size();
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
      int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return Err(ErrorCode::kInvalid, "the target has a '%' without two hex digits");
      c = static_cast<char>(high << 4 | low);
      i += 2;
      if (c == '/' && part == Part::kPath) has_escaped_slash_ = true;
    } else if (c == '+' && part == Part::kQuery) {
      c = ' ';
    }
    if (c == '\0') return Err(ErrorCode::kInvalid, "the target has a zero byte");
    if (part == Part::kPath && IsControl(c)) return Err(ErrorCode::kInvalid, "the path has a control character");
    if (part == Part::kPath && c == '\\') return Err(ErrorCode::kInvalid, "the path has a backslash");
    decoded_ += c;
  }
  std::string_view decoded = std::string_view(decoded_).substr(start);
  if (!IsUtf8(decoded)) return Err(ErrorCode::kInvalid, "the target is not valid UTF-8");
  return decoded;
}

Status Target::ParsePath(std::string_view path) {
  path.remove_prefix(1);
  if (path.ends_with('/')) {
    has_trailing_slash_ = true;
    path.remove_suffix(1);
    if (path.empty()) return Err(ErrorCode::kInvalid, "the path has an empty segment");
  }
  while (!path.empty()) {
    size_t slash = path.find('/');
    TRY(std::string_view segment, Decode(path.substr(0, slash), Part::kPath));
    TRY_VOID(CheckSegment(segment));
    if (segments_.size() == kMaxSegments) return Err(ErrorCode::kInvalid, "the path has too many segments");
    segments_.push_back(segment);
    if (slash == path.npos) break;
    path.remove_prefix(slash + 1);
    if (path.empty()) return Err(ErrorCode::kInvalid, "the path has an empty segment");
  }
  return {};
}

Status Target::ParseQuery(std::string_view query) {
  while (!query.empty()) {
    size_t end = query.find('&');
    std::string_view pair = query.substr(0, end);
    query.remove_prefix(end == query.npos ? query.size() : end + 1);
    if (pair.empty()) continue;
    size_t equals = pair.find('=');
    TRY(std::string_view name, Decode(pair.substr(0, equals), Part::kQuery));
    std::string_view value;
    if (equals != pair.npos) {
      TRY(value, Decode(pair.substr(equals + 1), Part::kQuery));
    }
    if (parameters_.size() == kMaxParameters) return Err(ErrorCode::kInvalid, "the query has too many parameters");
    parameters_.push_back({name, value});
  }
  return {};
}

Status Target::Parse(std::string_view raw) {
  decoded_.clear();
  decoded_.reserve(raw.size());
  segments_.clear();
  parameters_.clear();
  has_trailing_slash_ = has_escaped_slash_ = false;

  if (raw.find('#') != raw.npos) return Err(ErrorCode::kInvalid, "the target has a fragment");
  for (std::string_view scheme : {"http://", "https://"}) {
    if (!raw.starts_with(scheme)) continue;
    size_t path = raw.find_first_of("/?", scheme.size());
    if (path == raw.npos || raw[path] != '/') return Err(ErrorCode::kInvalid, "the target has no path");
    raw.remove_prefix(path);
  }
  if (!raw.starts_with('/')) return Err(ErrorCode::kInvalid, "the target does not begin with '/'");
  size_t question = raw.find('?');
  path_ = raw.substr(0, question);
  TRY_VOID(ParsePath(path_));
  if (question != raw.npos) TRY_VOID(ParseQuery(raw.substr(question + 1)));
  return {};
}

std::string Target::Rest(size_t first) const {
  std::string rest;
  for (size_t i = first; i < segments_.size(); ++i) {
    if (i > first) rest += '/';
    rest += segments_[i];
  }
  return rest;
}

std::optional<std::string_view> Target::parameter(std::string_view name) const {
  for (const QueryParameter& parameter : parameters_) {
    if (parameter.name == name) return parameter.value;
  }
  return std::nullopt;
}

}  // namespace cella::http
