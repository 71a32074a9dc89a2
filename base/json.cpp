// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/only_names.h"

namespace tandem::base {

namespace {

/// Reads characters and counts them, so that the SAX callbacks know where they are.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  CountingIterator(const char* at, std::size_t* count) : at_(at), count_(count) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*count_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& o) const { return at_ == o.at_; }
  bool operator!=(const CountingIterator& o) const { return at_ != o.at_; }

 private:
  const char* at_;
  std::size_t* count_;
};

}  // namespace

/// Builds the tree from SAX events. `read_` runs ahead of the token by at most one character.
class JsonBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonBuilder(std::string_view text, const std::string& file, const JsonLimits& limits)
      : text_(text), file_(std::make_shared<const std::string>(file)), limits_(limits) {
    lines_.push_back(0);
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') lines_.push_back(i + 1);
    }
  }
  std::size_t* counter() { return &read_; }
  Json take() { return std::move(root_); }

  bool null() override {
    return scalar(Json::Kind::null, [](Json&) {});
  }
  bool boolean(bool v) override {
    return scalar(Json::Kind::boolean, [v](Json& j) { j.boolean_ = v; });
  }
  bool number_integer(number_integer_t v) override {
    return scalar(Json::Kind::integer, [v](Json& j) { j.integer_ = v; });
  }
  bool number_unsigned(number_unsigned_t v) override {
    if (v > static_cast<number_unsigned_t>(INT64_MAX)) {
      throw InputError(here(token()), "the number does not fit 64 bits");
    }
    return number_integer(static_cast<number_integer_t>(v));
  }
  bool number_float(number_float_t v, const string_t&) override {
    if (!std::isfinite(v)) throw InputError(here(token()), "the number is not finite");
    return scalar(Json::Kind::real, [v](Json& j) { j.real_ = v; });
  }
  bool string(string_t& v) override {
    return scalar(Json::Kind::text, [&v](Json& j) { j.text_ = v; });
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::Kind::object); }
  bool start_array(std::size_t) override { return open(Json::Kind::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& k) override {
    Level& top = stack_.back();
    if (!top.seen.insert(k).second) {
      throw InputError(here(token()), fmt::format("the key \"{}\" stands twice in one object", printable(k)));
    }
    top.key = k;
    end_ = read_;
    return true;
  }
  bool parse_error(std::size_t byte, const std::string& read, const nlohmann::detail::exception& e) override {
    constexpr int kOverflow = 406;
    if (e.id == kOverflow)
      throw InputError(here(token()), fmt::format("the number {} is too large", printable(read)));
    std::string why = e.what();
    for (const char* mark : {"; last read", ": syntax error "}) {
      const auto at = why.find(mark);
      if (at != std::string::npos && mark[0] == ';') why.resize(at);
      if (at != std::string::npos && mark[0] == ':') why = why.substr(at + 2);
    }
    throw InputError(here(byte == 0 ? 0 : byte - 1), printable(why));
  }

 private:
  struct Level {
    Json value;
    std::string key = {};
    std::unordered_set<std::string> seen = {};
    Json::Items items = {};
    Json::Members members = {};
  };

  /// Offset at which the token just read begins: what follows the end of the one before it.
  std::size_t token() const {
    std::size_t i = end_;
    while (i < text_.size()) {
      const char c = text_[i];
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',' || c == ':' || c == '}' || c == ']') {
        ++i;
      } else if (c == '/' && i + 1 < text_.size() && text_[i + 1] == '/') {
        while (i < text_.size() && text_[i] != '\n') ++i;
      } else if (c == '/' && i + 1 < text_.size() && text_[i + 1] == '*') {
        const auto stop = text_.find("*/", i + 2);
        i = stop == std::string_view::npos ? text_.size() : stop + 2;
      } else {
        break;
      }
    }
    return i;
  }
  Place here(std::size_t offset) const {
    const auto line = std::upper_bound(lines_.begin(), lines_.end(), offset) - lines_.begin();
    const std::size_t start = lines_[static_cast<std::size_t>(line) - 1];
    return {file_, static_cast<int>(line), static_cast<int>(offset - start) + 1};
  }
  Json fresh(Json::Kind kind) {
    if (++nodes_ > limits_.nodes) {
      throw InputError(here(token()), fmt::format("more than {} values", limits_.nodes));
    }
    Json j;
    j.kind_ = kind;
    j.place_ = here(token());
    return j;
  }
  template <typename Fill>
  bool scalar(Json::Kind kind, Fill fill) {
    Json j = fresh(kind);
    fill(j);
    const bool number = kind == Json::Kind::integer || kind == Json::Kind::real;
    // A number ends one character before what was read, unless the text ends with it.
    const bool past = number && read_ > 0 && read_ <= text_.size() &&
                      std::strchr("+-.0123456789eE", text_[read_ - 1]) == nullptr;
    end_ = past ? read_ - 1 : read_;
    put(std::move(j));
    return true;
  }
  bool open(Json::Kind kind) {
    if (static_cast<int>(stack_.size()) >= limits_.depth) {
      throw InputError(here(token()), fmt::format("nested deeper than {} levels", limits_.depth));
    }
    stack_.push_back({fresh(kind)});
    end_ = read_;
    return true;
  }
  bool close() {
    Level& top = stack_.back();
    Json done = std::move(top.value);
    if (done.kind_ == Json::Kind::array) {
      done.items_ = std::make_shared<Json::Items>(std::move(top.items));
    } else {
      done.members_ = std::make_shared<Json::Members>(std::move(top.members));
    }
    stack_.pop_back();
    end_ = read_;
    put(std::move(done));
    return true;
  }
  void put(Json j) {
    if (stack_.empty()) {
      root_ = std::move(j);
    } else if (stack_.back().value.kind_ == Json::Kind::array) {
      stack_.back().items.push_back(std::move(j));
    } else {
      stack_.back().members.emplace_back(stack_.back().key, std::move(j));
    }
  }

  std::string_view text_;
  std::shared_ptr<const std::string> file_;
  JsonLimits limits_;
  std::vector<std::size_t> lines_;
  std::size_t read_ = 0;  ///< characters handed to the lexer
  std::size_t end_ = 0;   ///< where the last token ended
  int64_t nodes_ = 0;
  std::vector<Level> stack_;
  Json root_;
};

Json Json::parse(std::string_view text, const std::string& file, const JsonLimits& limits) {
  if (static_cast<int64_t>(text.size()) > limits.bytes) {
    throw InputError(fmt::format("{}: larger than {} bytes", printable(file), limits.bytes));
  }
  JsonBuilder builder(text, file, limits);
  const char* begin = text.data();
  nlohmann::json::sax_parse(CountingIterator(begin, builder.counter()),
                            CountingIterator(begin + text.size(), builder.counter()), &builder,
                            nlohmann::json::input_format_t::json, /*strict=*/true, /*ignore_comments=*/true);
  return builder.take();
}

Json Json::load(const std::string& path, const JsonLimits& limits) {
  return parse(read_file(path, limits.bytes), path == "-" ? "stdin" : path, limits);
}

Json Json::make_text(std::string value, Place place) {
  Json j;
  j.kind_ = Kind::text;
  j.text_ = std::move(value);
  j.place_ = std::move(place);
  return j;
}

Json Json::make_integer(int64_t value, Place place) {
  Json j;
  j.kind_ = Kind::integer;
  j.integer_ = value;
  j.place_ = std::move(place);
  return j;
}

Json Json::make_object(Place place) {
  Json j;
  j.kind_ = Kind::object;
  j.members_ = std::make_shared<Members>();
  j.place_ = std::move(place);
  return j;
}

bool Json::as_bool() const {
  if (kind_ != Kind::boolean) fail("expected true or false");
  return boolean_;
}

int64_t Json::as_int(int64_t low, int64_t high) const {
  if (kind_ == Kind::text)
    fail(fmt::format("expected a whole number, not the text \"{}\"", printable(text_)));
  if (kind_ != Kind::integer) fail("expected a whole number");
  if (integer_ < low || integer_ > high) {
    fail(high == INT64_MAX ? fmt::format("{} is below the least valid value {}", integer_, low)
                           : fmt::format("{} is outside {} .. {}", integer_, low, high));
  }
  return integer_;
}

double Json::as_real(double low, double high) const {
  if (kind_ != Kind::integer && kind_ != Kind::real) fail("expected a number");
  const double v = kind_ == Kind::integer ? static_cast<double>(integer_) : real_;
  if (!(v >= low && v <= high)) fail(fmt::format("{} is outside {} .. {}", v, low, high));
  return v;
}

const std::string& Json::as_text() const {
  if (kind_ != Kind::text) {
    const bool option = place_.file != nullptr && place_.file->rfind("--", 0) == 0;
    if (option && (kind_ == Kind::integer || kind_ == Kind::real))
      fail("a quantity needs its unit, such as \"25us\", \"12GB/s\" or \"11GiB\"");
    fail(kind_ == Kind::integer || kind_ == Kind::real
             ? "expected text in quotes; a quantity needs its unit, such as \"25us\", \"12GB/s\" or \"11GiB\""
             : "expected text in quotes");
  }
  return text_;
}

const std::vector<Json>& Json::items() const {
  if (kind_ != Kind::array) fail("expected a list [...]");
  return *items_;
}

const std::vector<std::pair<std::string, Json>>& Json::members() const {
  if (kind_ != Kind::object) fail("expected an object {...}");
  return *members_;
}

std::vector<std::string> Json::keys() const {
  std::vector<std::string> out;
  for (const auto& [k, v] : members()) out.push_back(k);
  return out;
}

const Json* Json::find(std::string_view key) const {
  for (const auto& [k, v] : members()) {
    if (k == key) return &v;
  }
  return nullptr;
}

const Json& Json::at(std::string_view key) const {
  if (const Json* j = find(key)) return *j;
  fail(fmt::format("the key \"{}\" is missing{}", key, did_you_mean(key, keys())));
}

int64_t Json::integer(std::string_view key, int64_t fallback, int64_t low, int64_t high) const {
  const Json* j = find(key);
  return j != nullptr ? j->as_int(low, high) : fallback;
}
double Json::real(std::string_view key, double fallback, double low, double high) const {
  const Json* j = find(key);
  return j != nullptr ? j->as_real(low, high) : fallback;
}
std::string Json::text(std::string_view key, std::string_view fallback) const {
  const Json* j = find(key);
  return j != nullptr ? j->as_text() : std::string(fallback);
}
bool Json::boolean(std::string_view key, bool fallback) const {
  const Json* j = find(key);
  return j != nullptr ? j->as_bool() : fallback;
}

void Json::only(std::initializer_list<std::string_view> valid) const {
  only(std::vector<std::string>(valid.begin(), valid.end()));
}

void Json::only(const std::vector<std::string>& valid) const {
  for (const auto& [k, v] : members()) {
    if (std::find(valid.begin(), valid.end(), k) == valid.end()) {
      v.fail(fmt::format("unknown key \"{}\".{} Valid here: {}", printable(k), did_you_mean(k, valid),
                         fmt::join(valid, ", ")));
    }
  }
}

namespace {

/// What is shared, to be changed: copied unless nobody else has it.
template <typename T>
T& own(std::shared_ptr<T>& shared) {
  if (shared.use_count() != 1) shared = std::make_shared<T>(*shared);
  std::atomic_thread_fence(std::memory_order_acquire);  // after the reads of who had it before
  return *shared;
}

}  // namespace

bool Json::operator==(const Json& other) const {
  const auto same = [](const auto& a, const auto& b) { return a == b || (a && b && *a == *b); };
  return kind_ == other.kind_ && boolean_ == other.boolean_ && integer_ == other.integer_ &&
         real_ == other.real_ && text_ == other.text_ && same(items_, other.items_) &&
         same(members_, other.members_);
}

void Json::set(std::string key, Json value) {
  TANDEM_CHECK(kind_ == Kind::object);
  for (auto& [k, v] : own(members_)) {
    if (k == key) {
      v = std::move(value);
      return;
    }
  }
  members_->emplace_back(std::move(key), std::move(value));
}

Json& Json::set_path(std::string_view path, std::string_view value, const Place& place, bool may_add) {
  Json* at = this;
  std::string_view rest = path;
  while (true) {
    const auto dot = rest.find('.');
    const std::string key(rest.substr(0, dot));
    const bool last = dot == std::string_view::npos;
    Json* next = nullptr;
    if (at->kind_ == Kind::array) {
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
      if (error != std::errc{} || end != key.data() + key.size() || index >= at->items_->size()) {
        throw InputError(place, fmt::format("\"{}\" in \"{}\" is not an index below {}", printable(key),
                                            printable(path), at->items_->size()));
      }
      next = &own(at->items_)[index];
    } else if (at->kind_ == Kind::object) {
      for (auto& [k, v] : own(at->members_)) {
        if (k == key) next = &v;
      }
      if (next == nullptr && last && may_add && !key.empty()) {
        at->members_->emplace_back(key, Json());
        next = &at->members_->back().second;
      }
    }
    if (next == nullptr) {
      const auto valid = at->kind_ == Kind::object ? at->keys() : std::vector<std::string>{};
      throw InputError(place, fmt::format("there is no \"{}\" to set in \"{}\".{} Valid: {}", printable(key),
                                          printable(path), did_you_mean(key, valid), fmt::join(valid, ", ")));
    }
    at = next;
    if (last) break;
    rest.remove_prefix(dot + 1);
  }
  Json parsed;
  int64_t whole = 0;
  double real = 0;
  const char* end = value.data() + value.size();
  if (const auto r = std::from_chars(value.data(), end, whole); r.ec == std::errc{} && r.ptr == end) {
    parsed = make_integer(whole, place);
  } else if (const auto d = std::from_chars(value.data(), end, real); d.ec == std::errc{} && d.ptr == end) {
    if (!std::isfinite(real)) throw InputError(place, "the number is not finite");
    parsed.kind_ = Kind::real;
    parsed.real_ = real;
  } else if (value == "true" || value == "false") {
    parsed.kind_ = Kind::boolean;
    parsed.boolean_ = value == "true";
  } else {
    parsed = make_text(std::string(value), place);
  }
  parsed.place_ = place;
  *at = std::move(parsed);
  return *this;
}

void write_file(const std::string& path, std::string_view content) {
  struct stat info {};
  // A device or pipe is written to, never replaced by a file of its name.
  const bool special = stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
  const std::string temporary = special ? path : fmt::format("{}.tmp{}", path, getpid());
  std::FILE* f = std::fopen(temporary.c_str(), "wb");
  if (f == nullptr)
    throw InputError(fmt::format("{}: cannot write: {}", printable(path), std::strerror(errno)));
  const bool written = std::fwrite(content.data(), 1, content.size(), f) == content.size();
  const bool closed = std::fclose(f) == 0;
  if (!written || !closed || (!special && std::rename(temporary.c_str(), path.c_str()) != 0)) {
    const int error = errno;
    if (!special) std::remove(temporary.c_str());
    throw InputError(fmt::format("{}: cannot write: {}", printable(path), std::strerror(error)));
  }
}

namespace {

std::string read_all(std::FILE* f, const std::string& name, int64_t limit) {
  std::string out;
  char buffer[65536];
  std::size_t got = 0;
  while ((got = std::fread(buffer, 1, sizeof buffer, f)) > 0) {
    out.append(buffer, got);
    if (static_cast<int64_t>(out.size()) > limit)
      throw InputError(fmt::format("{}: larger than {} bytes", printable(name), limit));
  }
  return out;
}

}  // namespace

std::string read_file(const std::string& path, int64_t limit) {
  OnlyNames::check(path);
  if (path == "-") return read_all(stdin, "stdin", limit);
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    throw InputError(fmt::format("{}: cannot read: {}", printable(path), std::strerror(errno)));
  }
  if (S_ISDIR(info.st_mode)) throw InputError(fmt::format("{}: is a folder, not a file", printable(path)));
  std::FILE* f = std::fopen(path.c_str(), "rb");
  if (f == nullptr)
    throw InputError(fmt::format("{}: cannot read: {}", printable(path), std::strerror(errno)));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> owner(f, std::fclose);
  return read_all(f, path, limit);
}

}  // namespace tandem::base
