// SPDX-License-Identifier: Apache-2.0
// include/tandem/tandem.h over answers/: nothing is decided here.
#include <algorithm>

#include "answers/answer.h"
#include "answers/question.h"
#include "base/data.h"
#include "include/tandem/tandem.h"

namespace tandem {

/// What the public classes hold.
class Door {
 public:
  static Question make(answers::Question inside) {
    inside.timeline = false;
    return Question(std::make_shared<const answers::Question>(std::move(inside)));
  }
  static const answers::Question& inside(const Question& question) { return *question.inside_; }
  static Report make(schemes::Report inside) {
    return Report(std::make_shared<const schemes::Report>(std::move(inside)));
  }
  static const schemes::Report& inside(const Report& report) { return *report.inside_; }
};

namespace {

/// Turns errors of input into the one type that callers know.
template <typename F>
auto told(F f) {
  try {
    return f();
  } catch (const base::InputError& error) {
    throw Error(error.what());
  } catch (const base::UsageError& error) {
    throw Error(error.what());
  } catch (const base::DeviceError& error) {
    throw Error(error.what());
  }
}

answers::Depth depth_of(Depth depth) {
  return depth == Depth::rate     ? answers::Depth::rate
         : depth == Depth::report ? answers::Depth::report
                                  : answers::Depth::full;
}

}  // namespace

void set_data_folder(const std::string& folder) {
  told([&] { base::set_data_root(folder); });
}

Question::Question(const Options& options)
    : inside_(Door::make(told([&] { return answers::Question::of(options); })).inside_) {}

Question Question::from_json(const std::string& text, const std::string& name) {
  return Door::make(told([&] { return answers::Question::from_json(base::Json::parse(text, name)); }));
}

Question Question::with(const Options& changes) const {
  return Door::make(told([&] { return inside_->with(changes); }));
}

std::string Question::to_json() const {
  return told([&] { return inside_->to_json().dump(); });
}
uint64_t Question::hash() const {
  return told([&] { return inside_->hash(); });
}
std::vector<int64_t> Question::devices() const { return inside_->devices; }

int64_t Report::devices() const { return inside_->setup.devices; }
bool Report::fits() const { return inside_->fits; }
double Report::samples_per_second() const { return inside_->rate.samples_per_second; }
double Report::low() const { return inside_->rate.interval.low; }
double Report::high() const { return inside_->rate.interval.high; }
double Report::staleness() const {
  return inside_->staleness.all.count() == 0 ? 0 : inside_->staleness.all.mean();
}
double Report::speedup() const { return inside_->scaling.speedup; }
int64_t Report::memory_bytes() const { return inside_->memory.needed().n; }
int64_t Report::memory_capacity() const { return inside_->memory.capacity.n; }
std::string Report::bottleneck() const { return inside_->bottleneck.resource; }

std::vector<Report> predict(const Question& question, Depth depth) {
  return told([&] {
    std::vector<Report> out;
    for (schemes::Report& report : answers::predict(Door::inside(question), depth_of(depth)))
      out.push_back(Door::make(std::move(report)));
    return out;
  });
}

std::string to_json(const std::vector<Report>& reports) {
  std::vector<schemes::Report> inside;
  for (const Report& report : reports) inside.push_back(Door::inside(report));
  return told([&] { return schemes::reports_to_json(inside, true); });
}

std::string version() { return TANDEM_VERSION; }

}  // namespace tandem
