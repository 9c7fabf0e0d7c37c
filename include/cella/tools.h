// Functions of a C++ application as tools of a session's code. A layer of inline functions over cella.h.
//
//   session->tools().add("lookup", [](std::string key) { return Find(key); }, {"key"}, "Looks a key up.");
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cella.h"
#include "cella/detail/policy_document.h"
#include "cella/engine.h"
#include "cella/expected.h"

namespace cella {
namespace detail {

// How a C++ type is read from an argument, written as a result, and named in a schema.
template <typename T>
struct ToolType;

template <>
struct ToolType<std::string> {
  static std::string Schema() { return R"({"type":"string"})"; }
  static bool Read(const cella_value* value, std::string* to) {
    size_t size = 0;
    const char* text = cella_value_text(value, &size);
    if (text != nullptr) to->assign(text, size);
    return text != nullptr;
  }
  static void Write(std::string_view value, std::string* json) { JsonObject::Quote(value, json); }
};
template <>
struct ToolType<bool> {
  static std::string Schema() { return R"({"type":"boolean"})"; }
  static bool Read(const cella_value* value, bool* to) {
    *to = cella_value_boolean(value);
    return cella_value_get_kind(value) == CELLA_VALUE_BOOLEAN;
  }
  static void Write(bool value, std::string* json) { *json += value ? "true" : "false"; }
};
template <std::integral T>
struct ToolType<T> {
  static std::string Schema() { return R"({"type":"integer"})"; }
  static bool Read(const cella_value* value, T* to) {
    const int64_t number = cella_value_integer(value);
    *to = static_cast<T>(number);
    return cella_value_get_kind(value) == CELLA_VALUE_INTEGER && std::in_range<T>(number);
  }
  static void Write(T value, std::string* json) { *json += std::to_string(value); }
};
template <std::floating_point T>
struct ToolType<T> {
  static std::string Schema() { return R"({"type":"number"})"; }
  static bool Read(const cella_value* value, T* to) {
    const cella_value_kind kind = cella_value_get_kind(value);
    *to = static_cast<T>(cella_value_number(value));
    return kind == CELLA_VALUE_NUMBER || kind == CELLA_VALUE_INTEGER;
  }
  static void Write(T value, std::string* json) {
    std::array<char, 64> digits{};
    const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), value);
    *json += std::string_view(digits.data(), static_cast<size_t>(written.ptr - digits.data()));
  }
};
template <typename T>
struct ToolType<std::optional<T>> {
  static std::string Schema() { return R"({"anyOf":[)" + ToolType<T>::Schema() + R"(,{"type":"null"}]})"; }
  static bool Read(const cella_value* value, std::optional<T>* to) {
    if (cella_value_get_kind(value) == CELLA_VALUE_NULL) return true;
    return ToolType<T>::Read(value, &to->emplace());
  }
  static void Write(const std::optional<T>& value, std::string* json) {
    if (value) {
      ToolType<T>::Write(*value, json);
    } else {
      *json += "null";
    }
  }
};
template <typename T>
struct ToolType<std::vector<T>> {
  static std::string Schema() { return R"({"type":"array","items":)" + ToolType<T>::Schema() + "}"; }
  static bool Read(const cella_value* value, std::vector<T>* to) {
    if (cella_value_get_kind(value) != CELLA_VALUE_LIST) return false;
    for (size_t i = 0; i < cella_value_count(value); ++i) {
      T one{};
      if (!ToolType<T>::Read(cella_value_at(value, i), &one)) return false;
      to->push_back(std::move(one));
    }
    return true;
  }
  static void Write(const std::vector<T>& values, std::string* json) {
    *json += '[';
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) *json += ',';
      ToolType<T>::Write(values[i], json);
    }
    *json += ']';
  }
};
template <typename T>
struct ToolType<std::map<std::string, T>> {
  static std::string Schema() { return R"({"type":"object","additionalProperties":)" + ToolType<T>::Schema() + "}"; }
  static bool Read(const cella_value* value, std::map<std::string, T>* to) {
    if (cella_value_get_kind(value) != CELLA_VALUE_OBJECT) return false;
    for (size_t i = 0; i < cella_value_count(value); ++i) {
      size_t size = 0;
      const char* key = cella_value_key(value, i, &size);
      if (!ToolType<T>::Read(cella_value_at(value, i), &(*to)[std::string(key, size)])) return false;
    }
    return true;
  }
  static void Write(const std::map<std::string, T>& values, std::string* json) {
    const char* comma = "";
    *json += '{';
    for (const auto& [key, value] : values) {
      *json += comma;
      JsonObject::Quote(key, json);
      *json += ':';
      ToolType<T>::Write(value, json);
      comma = ",";
    }
    *json += '}';
  }
};

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

template <typename Function>
struct Signature : Signature<decltype(&Function::operator())> {};
template <typename Answer, typename... Words>
struct Signature<Answer (*)(Words...)> {
  using Result = std::remove_cvref_t<Answer>;
  using Arguments = std::tuple<std::remove_cvref_t<Words>...>;
};
template <typename Class, typename Answer, typename... Words>
struct Signature<Answer (Class::*)(Words...)> : Signature<Answer (*)(Words...)> {};
template <typename Class, typename Answer, typename... Words>
struct Signature<Answer (Class::*)(Words...) const> : Signature<Answer (*)(Words...)> {};

// A function with the names of its parameters, as the context of a cella_tool.
template <typename Function>
class BoundTool {
 public:
  using Arguments = typename Signature<Function>::Arguments;
  using Result = typename Signature<Function>::Result;
  static constexpr size_t kCount = std::tuple_size_v<Arguments>;

  BoundTool(std::string name, Function function, std::vector<std::string> parameters)
      : name_(std::move(name)), function_(std::move(function)), parameters_(std::move(parameters)) {}

  std::string Schema() const { return SchemaOf(std::make_index_sequence<kCount>()); }

  static void Call(cella_call* call, void* context) {
    auto& self = *static_cast<BoundTool*>(context);
    try {
      self.Run(call, std::make_index_sequence<kCount>());
    } catch (const std::exception& failure) {
      cella_call_fail(call, failure.what());
    } catch (...) {
      cella_call_fail(call, "the tool failed");
    }
  }
  static void Release(void* context) { delete static_cast<BoundTool*>(context); }

 private:
  const char* NameOf(size_t i) const { return i < parameters_.size() ? parameters_[i].c_str() : nullptr; }
  std::string ShownName(size_t i) const {
    return i < parameters_.size() ? parameters_[i] : "argument " + std::to_string(i + 1);
  }

  template <size_t... I>
  std::string SchemaOf(std::index_sequence<I...>) const {
    JsonObject properties, schema;
    std::string required;
    auto add = [&](size_t i, const std::string& type, bool is_optional) {
      if (NameOf(i) == nullptr) return;
      properties.Raw(NameOf(i), type);
      if (is_optional) return;
      required += required.empty() ? "" : ",";
      JsonObject::Quote(NameOf(i), &required);
    };
    (add(I, ToolType<std::tuple_element_t<I, Arguments>>::Schema(), kIsOptional<std::tuple_element_t<I, Arguments>>),
     ...);
    schema.Text("type", "object");
    schema.Raw("properties", std::move(properties).Finish());
    schema.Raw("required", "[" + required + "]");
    return std::move(schema).Finish();
  }

  template <typename T>
  T Read(cella_call* call, size_t i, size_t* taken) const {
    T value{};
    const cella_value* given = cella_call_argument(call, i, NameOf(i));
    if (given == nullptr) {
      if constexpr (kIsOptional<T>) return value;
      throw std::invalid_argument(name_ + "(): " + ShownName(i) + " is missing");
    }
    ++*taken;
    if (!ToolType<T>::Read(given, &value)) {
      throw std::invalid_argument(name_ + "(): " + ShownName(i) + " must be " + ToolType<T>::Schema());
    }
    return value;
  }

  template <size_t... I>
  void Run(cella_call* call, std::index_sequence<I...>) {
    size_t taken = 0;
    // Braces: in the order of the parameters.
    Arguments arguments{Read<std::tuple_element_t<I, Arguments>>(call, I, &taken)...};
    if (taken != cella_call_argument_count(call)) {
      throw std::invalid_argument(name_ + "() takes other arguments: " + std::to_string(kCount) + " at most");
    }
    std::string json = "null";
    if constexpr (std::is_void_v<Result>) {
      std::apply(function_, std::move(arguments));
    } else {
      json.clear();
      ToolType<Result>::Write(std::apply(function_, std::move(arguments)), &json);
    }
    cella_call_return(call, json.data(), json.size());
  }

  const std::string name_;
  Function function_;
  const std::vector<std::string> parameters_;
};

}  // namespace detail

// The tools of one session, which must outlive this.
class Tools {
 public:
  explicit Tools(cella_session* session) : session_(session) {}

  // From the next run on. The function is called by the thread that is in Run, Wait or Next. Arguments and results are
  // std::string, bool, numbers, and std::optional, std::vector and std::map<std::string, …> of these; results also
  // void. Without names, arguments bind in the order of the call, whatever the code calls them. An exception is an
  // error of the call.
  template <typename Function>
  Expected<void> add(const std::string& name, Function function, std::vector<std::string> parameters = {},
                     const std::string& description = "") {
    using Tool = detail::BoundTool<Function>;
    auto tool = std::make_unique<Tool>(name, std::move(function), std::move(parameters));
    const std::string schema = tool->Schema();
    return detail::Try([&](cella_error** error) {
      return cella_tool_add(session_, name.c_str(), description.c_str(), schema.c_str(), Tool::Call, tool.release(),
                            Tool::Release, error);
    });
  }

 private:
  cella_session* session_;
};

}  // namespace cella
