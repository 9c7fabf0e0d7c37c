#include "server/value_order.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace cella::server {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kVariables = "variables";

// Writes each object and list below "variables" as text while the parser reads. The text was read before, within the
// bounds of bodies.
class Transcriber : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return Write("null"); }
  bool boolean(bool value) override { return Write(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return Write(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return Write(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { return Write(text); }
  bool string(string_t& value) override { return !IsInside() || Write(Quoted(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return Enter('{'); }
  bool start_array(std::size_t) override { return Enter('['); }
  bool end_object() override { return Leave('}'); }
  bool end_array() override { return Leave(']'); }

  bool key(string_t& name) override {
    if (IsInside()) {
      Separate();
      text_ += Quoted(name) + ":";
      after_key_ = true;
    } else if (depth_ == 1) {
      in_variables_ = name == kVariables;
    } else if (depth_ == 2 && in_variables_) {
      name_ = std::move(name);
    }
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

  // Names and texts.
  std::vector<std::pair<std::string, std::string>>& texts() { return texts_; }

 private:
  // In an object or a list that is a value, or part of one.
  bool IsInside() const { return in_variables_ && depth_ > 2; }

  static std::string Quoted(const std::string& text) {
    return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  void Separate() {
    if (!std::exchange(first_, false) && !after_key_) text_ += ',';
    after_key_ = false;
  }

  bool Write(std::string_view value) {
    if (!IsInside()) return true;
    Separate();
    text_ += value;
    return true;
  }

  bool Enter(char bracket) {
    if (IsInside()) Separate();
    ++depth_;
    if (!IsInside()) return true;
    text_ += bracket;
    first_ = true;
    return true;
  }

  bool Leave(char bracket) {
    if (IsInside()) {
      text_ += bracket;
      first_ = after_key_ = false;
      if (depth_ == 3) texts_.emplace_back(std::move(name_), std::exchange(text_, {}));
    }
    --depth_;
    return true;
  }

  int depth_ = 0;
  bool in_variables_ = false;
  bool first_ = true;       // nothing precedes in the innermost object or list
  bool after_key_ = false;  // the value of a key comes next
  std::string name_;
  std::string text_;
  std::vector<std::pair<std::string, std::string>> texts_;
};

bool IsWrapped(const Json& value) {
  return value.is_object() && value.size() == 1 && (value.contains("$bytes") || value.contains("$json"));
}

}  // namespace

void KeepOrderOfVariables(std::string_view text, Json* document) {
  auto variables = document->find(kVariables);
  if (variables == document->end() || !variables->is_object()) return;
  bool has_structure = false;
  for (const Json& value : *variables) has_structure = has_structure || value.is_structured();
  if (!has_structure) return;
  Transcriber transcriber;
  if (!Json::sax_parse(text, &transcriber)) return;
  for (auto& [name, transcript] : transcriber.texts()) {
    auto value = variables->find(name);
    if (value == variables->end() || IsWrapped(*value)) continue;
    *value = Json::object({{"$json", std::move(transcript)}});
  }
}

}  // namespace cella::server
