// SPDX-License-Identifier: Apache-2.0
#include "sweep/desk.h"

#include <utility>

#include "base/in_parallel.h"
#include "base/json_writer.h"
#include "sweep/reader.h"

namespace tandem::sweep {

namespace {

using Clock = std::chrono::steady_clock;

/// What a thread with cells to answer is told when it reports some of them.
constexpr const char* kGoOn = "[]";

JsonWriter row_json(const Row& row) {
  JsonWriter out = JsonWriter::array();
  for (const Value& value : row) {
    if (const auto* whole = std::get_if<int64_t>(&value)) {
      out.push_back(*whole);
    } else if (const auto* real = std::get_if<double>(&value)) {
      out.push_back(*real);
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      out.push_back(*text);
    } else {
      out.push_back(nullptr);
    }
  }
  return out;
}

Row row_of(const Json& json) {
  Row out;
  for (const Json& value : json.items()) {
    if (value.is_integer()) {
      out.emplace_back(value.as_int());
    } else if (value.is_text()) {
      out.emplace_back(value.as_text());
    } else if (value.kind() == Json::Kind::real) {
      out.emplace_back(value.as_real());
    } else {
      out.emplace_back();
    }
  }
  return out;
}

Json parse_message(const std::string& message) {
  return Json::parse(message, "a message between processes", {INT32_MAX, 8, INT32_MAX});
}

/// What one thread has answered and not yet reported.
class Unreported {
 public:
  void add(int64_t index, const std::optional<Row>& row) {
    answers_.push_back(JsonWriter::array({index, row ? row_json(*row) : JsonWriter()}));
  }
  /// `wants`: it has no cells left.
  std::string take(bool wants) {
    const JsonWriter out = {{"wants", wants}, {"answers", std::exchange(answers_, JsonWriter::array())}};
    reported_ = Clock::now();
    return out.dump();
  }
  bool due(std::chrono::milliseconds together) const { return Clock::now() - reported_ >= together; }

 private:
  JsonWriter answers_ = JsonWriter::array();
  Clock::time_point reported_ = Clock::now();
};

}  // namespace

void answer_for(const Header& header, const Hooks& given, int threads, const Ask& ask,
                std::chrono::milliseconds together) {
  const Depth depth = parse_depth(header.depth, option_place("depth"));
  Hooks hooks = given;
  hooks.note = nullptr;
  const auto programs = std::make_shared<Programs>();
  base::in_parallel(static_cast<std::size_t>(threads), threads, [&](std::size_t thread) {
    Reader reader(header.grid, hooks, programs);
    Unreported report;
    while (true) {
      const std::string part = ask(static_cast<int>(thread), report.take(true));
      if (part.empty()) return;
      const Json cells = parse_message(part);
      for (const Json& cell : cells.items()) {
        const std::vector<Json>& asked = cell.items();
        report.add(asked.at(0).as_int(),
                   answer_cell(reader, header.grid, asked.at(1).as_int(), asked.at(2).as_text(), depth));
        if (report.due(together) && ask(static_cast<int>(thread), report.take(false)).empty()) return;
      }
    }
  });
}

Desk::Desk(const Others& others, const std::atomic<bool>* stop) : others_(others), stop_(stop) {
  if (others.threads > 0)
    thread_ = std::thread([this] {
      try {
        others_.serve([this](const std::string& asked) { return reply(asked); }, [this] { return over(); });
      } catch (const std::exception&) {  // they are lost: their cells are answered here
      }
    });
}

Desk::~Desk() { close(); }

std::string Desk::reply(const std::string& asked) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return work_ != nullptr || closed_; });
  const Json message = parse_message(asked);
  if (work_ != nullptr) {
    for (const Json& answer : message.at("answers").items()) {
      const Json& row = answer.items().at(1);
      const auto index =
          static_cast<std::size_t>(answer.items().at(0).as_int(0, static_cast<int64_t>(work_->cells()) - 1));
      (*keep_)(index, row.is_array() ? std::optional(row_of(row)) : std::nullopt);
    }
  }
  if (!closed_ && !message.at("wants").as_bool()) return kGoOn;
  const Work::Part part = closed_ ? Work::Part{} : work_->take_away();
  JsonWriter out = JsonWriter::array();
  for (std::size_t i = part.begin; i < part.end; ++i) {
    const auto key = known_->find(work_->position(i));
    out.push_back(JsonWriter::array(
        {static_cast<int64_t>(i), work_->position(i), key == known_->end() ? std::string() : key->second}));
  }
  if (part.empty()) ++told_;
  return part.empty() ? "" : out.dump();
}

bool Desk::over() {
  const std::lock_guard lock(mutex_);
  if (told_ == others_.threads) return true;
  return closed_ && ((stop_ != nullptr && *stop_) || Clock::now() - *closed_ > others_.patience);
}

void Desk::share(Work& work, const Keys& known, const Keep& keep, const std::function<void()>& here) {
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    known_ = &known;
    keep_ = &keep;
  }
  changed_.notify_all();
  struct Closed {
    Desk& desk;
    ~Closed() { desk.close(); }
  } const closed{*this};
  here();
}

int64_t Desk::close() {
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) closed_ = Clock::now();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  return others_.threads - told_;
}

}  // namespace tandem::sweep
