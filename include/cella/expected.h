// A value or an Error, as std::expected, which C++20 does not have. One type for every language mode, so that files of
// one application may be compiled with different ones.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace cella {

// Why Cella did not do what was asked. How a guest's code ended is never one of these.
struct Failure {
  enum class Code {
    kInvalid,      // the request is wrong
    kNotFound,     // a file, interpreter or tool is missing
    kPermission,   // the kernel or the file system said no
    kUnsupported,  // this machine or this executor cannot do it; the message names the remedy
    kExhausted,    // out of descriptors, memory, disk or places in a queue
    kClosed,       // the session or the engine has ended
    kInternal,
  };
  Code code = Code::kInternal;
  std::string message;
};

// As with std::expected, a value is asked for only after a look whether there is one.
template <typename T>
class [[nodiscard]] Expected {
 public:
  using value_type = T;
  using error_type = Failure;

  Expected(T value) : content_(std::in_place_index<0>, std::move(value)) {}
  Expected(Failure failure) : content_(std::in_place_index<1>, std::move(failure)) {}

  bool has_value() const noexcept { return content_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  // Throw std::bad_variant_access if there is none.
  T& value() & { return std::get<0>(content_); }
  const T& value() const& { return std::get<0>(content_); }
  T&& value() && { return std::get<0>(std::move(content_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Failure& error() { return std::get<1>(content_); }
  const Failure& error() const { return std::get<1>(content_); }
  T value_or(T other) const { return has_value() ? value() : std::move(other); }

 private:
  std::variant<T, Failure> content_;
};

template <>
class [[nodiscard]] Expected<void> {
 public:
  using value_type = void;
  using error_type = Failure;

  Expected() = default;
  Expected(Failure failure) : failure_(std::move(failure)), has_value_(false) {}

  bool has_value() const noexcept { return has_value_; }
  explicit operator bool() const noexcept { return has_value_; }
  Failure& error() { return failure_; }
  const Failure& error() const { return failure_; }

 private:
  Failure failure_;
  bool has_value_ = true;
};

}  // namespace cella
