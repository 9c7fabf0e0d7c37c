#include "base/json.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/text.h"

namespace cella {
namespace {

using Json = nlohmann::json;

constexpr size_t kShownKey = 64;

// Builds the value while the parser reads, and stops the parser at the first bound. The library's own reader with a
// callback compares each ended value with all its siblings, and its reader without one has no bounds.
class Builder : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  bool null() override { return Add(nullptr) != nullptr; }
  bool boolean(bool value) override { return Add(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return Add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return Add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override { return Add(value) != nullptr; }
  bool string(string_t& value) override { return Add(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return Enter(Json::object()); }
  bool start_array(std::size_t) override { return Enter(Json::array()); }
  bool end_object() override { return Leave(); }
  bool end_array() override { return Leave(); }

  bool key(string_t& name) override {
    if (!Count()) return false;
    auto [place, is_new] = open_.back()->get_ref<Json::object_t&>().try_emplace(std::move(name));
    if (!is_new && limits_.unique_keys) {
      const std::string shown = ToUtf8Lossy(std::string_view(place->first).substr(0, kShownKey));
      return Fail(ErrorCode::kInvalid, fmt::format("the key '{}' is there twice", shown));
    }
    member_ = &place->second;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return Fail(ErrorCode::kInvalid, fmt::format("not JSON at byte {}", position));
  }

  Result<Json> Take(bool whole) {
    if (failure_) return std::unexpected(std::move(*failure_));
    if (!whole) return Err(ErrorCode::kInvalid, "not JSON");
    return std::move(root_);
  }
  size_t nodes() const { return nodes_; }

 private:
  template <typename T>
  Json* Add(T value) {
    if (!Count()) return nullptr;
    Json* place = &root_;
    if (!open_.empty()) place = open_.back()->is_array() ? &open_.back()->emplace_back() : member_;
    *place = Json(std::move(value));
    return place;
  }

  bool Enter(Json empty) {
    if (open_.size() >= limits_.depth) {
      return Fail(ErrorCode::kExhausted, fmt::format("nested deeper than {} levels", limits_.depth));
    }
    Json* place = Add(std::move(empty));
    if (place != nullptr) open_.push_back(place);
    return place != nullptr;
  }

  bool Leave() {
    open_.pop_back();
    return true;
  }

  bool Count() {
    if (++nodes_ <= limits_.nodes) return true;
    return Fail(ErrorCode::kExhausted, fmt::format("more than {} keys and values", limits_.nodes));
  }

  bool Fail(ErrorCode code, std::string message) {
    failure_ = Error{code, std::move(message), 0};
    return false;
  }

  const JsonLimits& limits_;
  Json root_;
  std::vector<Json*> open_;  // arrays and objects that have not ended; only the last one grows
  Json* member_ = nullptr;   // of the last object: the place of the next value
  size_t nodes_ = 0;
  std::optional<Error> failure_;
};

}  // namespace

Result<Json> ReadJson(std::string_view text, const JsonLimits& limits, JsonWork* work) {
  if (text.size() > limits.bytes) return Err(ErrorCode::kExhausted, "larger than {} bytes", limits.bytes);
  Builder builder(limits);
  const bool whole = Json::sax_parse(text, &builder);
  if (work != nullptr) work->nodes = builder.nodes();
  return builder.Take(whole);
}

}  // namespace cella
