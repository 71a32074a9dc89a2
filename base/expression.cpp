// SPDX-License-Identifier: Apache-2.0
#include "base/expression.h"

#include <fmt/format.h>

#include <charconv>

namespace tandem::base {

void Variables::set(std::string_view name, int64_t value) {
  const auto at = values_.find(name);
  if (at != values_.end()) {
    at->second = value;
  } else {
    values_.emplace(name, value);
  }
}

const int64_t* Variables::find(std::string_view name) const {
  const auto at = values_.find(name);
  if (at != values_.end()) return &at->second;
  return outer_ != nullptr ? outer_->find(name) : nullptr;
}

std::vector<std::string> Variables::names() const {
  std::vector<std::string> out;
  for (const Variables* level = this; level != nullptr; level = level->outer_) {
    for (const auto& [n, v] : level->values_) out.push_back(n);
  }
  return out;
}

namespace {

constexpr std::size_t kLongest = 256;
constexpr int kDeepest = 32;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Recursive descent: all = sum [(<|==) sum]; sum = product {(+|-) product};
/// product = factor {(*|/|%) factor}; factor = -factor | number | name | ( all ).
class Parser {
 public:
  Parser(std::string_view text, const Variables& variables, const Place& place)
      : text_(text), variables_(variables), place_(place) {}

  int64_t run() {
    if (text_.size() > kLongest) fail(fmt::format("is longer than {} characters", kLongest));
    at_ = 1;
    const int64_t value = all();
    if (at_ < text_.size()) fail(fmt::format("has an unexpected '{}'", printable(text_.substr(at_, 1))));
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw InputError(place_, fmt::format("the expression \"{}\" {}", printable(text_), why));
  }
  char next() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  int64_t all() {
    const int64_t left = sum();
    const char c = next();
    if (c == '<') {
      ++at_;
      return left < sum() ? 1 : 0;
    }
    if (c != '=' || text_.substr(at_, 2) != "==") return left;
    at_ += 2;
    return left == sum() ? 1 : 0;
  }
  int64_t sum() {
    if (++depth_ > kDeepest) fail(fmt::format("is nested deeper than {} levels", kDeepest));
    int64_t value = product();
    for (char c = next(); c == '+' || c == '-'; c = next()) {
      ++at_;
      const int64_t right = product();
      const bool over = c == '+' ? __builtin_add_overflow(value, right, &value)
                                 : __builtin_sub_overflow(value, right, &value);
      if (over) fail("overflows 64 bits");
    }
    --depth_;
    return value;
  }
  int64_t product() {
    int64_t value = factor();
    for (char c = next(); c == '*' || c == '/' || c == '%'; c = next()) {
      ++at_;
      const int64_t right = factor();
      if (c == '*') {
        if (__builtin_mul_overflow(value, right, &value)) fail("overflows 64 bits");
      } else if (c == '/') {
        value = quotient(value, right);
      } else {
        if (right < 1 || value < 0) fail(fmt::format("takes the rest of {} by {}", value, right));
        value %= right;
      }
    }
    return value;
  }
  int64_t quotient(int64_t a, int64_t b) const {
    if (b == 0) fail("divides by zero");
    if (b == -1) {
      if (a == INT64_MIN) fail("overflows 64 bits");
      return -a;
    }
    if (a % b != 0) fail(fmt::format("does not divide evenly: {} / {}", a, b));
    return a / b;
  }
  int64_t factor() {
    const char c = next();
    if (c == '-') {
      ++at_;
      if (++depth_ > kDeepest) fail(fmt::format("is nested deeper than {} levels", kDeepest));
      const int64_t value = factor();
      --depth_;
      if (value == INT64_MIN) fail("overflows 64 bits");
      return -value;
    }
    if (c == '(') {
      ++at_;
      const int64_t value = all();
      if (next() != ')') fail("lacks a ')'");
      ++at_;
      return value;
    }
    if (is_digit(c)) return number();
    if (is_letter(c)) return variable();
    fail(c == '\0' ? std::string("ends too early")
                   : fmt::format("has an unexpected '{}'", printable(text_.substr(at_, 1))));
  }
  int64_t number() {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc{}) fail("has a number that does not fit 64 bits");
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }
  int64_t variable() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (const int64_t* value = variables_.find(name)) return *value;
    const auto names = variables_.names();
    fail(fmt::format("uses the unknown name \"{}\".{}", printable(name), did_you_mean(name, names)));
  }

  std::string_view text_;
  const Variables& variables_;
  const Place& place_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

int64_t evaluate(std::string_view text, const Variables& variables, const Place& place) {
  if (text.empty() || text.front() != '=') {
    throw InputError(place, fmt::format("\"{}\" is not an expression; write \"=...\"", printable(text)));
  }
  return Parser(text, variables, place).run();
}

bool is_expression(const Json& value) { return value.is_text() && value.as_text().starts_with('='); }

int64_t whole_number(const Json& value, const Variables& variables) {
  return is_expression(value) ? evaluate(value.as_text(), variables, value.place()) : value.as_int();
}

}  // namespace tandem::base
