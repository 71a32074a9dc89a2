// SPDX-License-Identifier: Apache-2.0
#include "schemes/report/stage_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace tandem::schemes {

namespace {

/// What the compute ops of one pass have in common.
struct PassKey {
  enum class What : uint8_t { none, forward, backward, data, weights, update } what = What::none;
  int64_t micro = -1, chunk = 0;
  bool operator==(const PassKey&) const = default;
};

/// Of a compute op after one of `before`. What makes parameters' gradients alone is a separate pass,
/// unless it completes the backward pass that it follows.
PassKey pass_key(const Program& program, const Role& role, const Op& op, const PassKey& before) {
  using What = PassKey::What;
  const Task& task = program.tasks[op.what];
  if (task.pass == Pass::update) return {What::update, -1, 0};
  PassKey key{What::backward, op.micro, 0};
  for (std::size_t c = 0; c < role.slice.ranges.size(); ++c) {
    if (role.slice.ranges[c].first <= task.layer) key.chunk = static_cast<int64_t>(c);
  }
  if (task.pass == Pass::forward) key.what = What::forward;
  if (!task.parts || key == before) return key;
  if (task.pass == Pass::backward_data) key.what = What::data;
  if (task.pass == Pass::backward_weights) key.what = What::weights;
  return key;
}

std::string pass_text(const PassKey& key, bool chunks) {
  constexpr std::string_view names[] = {"", "forward", "backward", "backward-data", "backward-weights"};
  if (key.what == PassKey::What::update) return "updates";
  std::string out = fmt::format("{} of micro-batch {}", names[static_cast<std::size_t>(key.what)], key.micro);
  if (chunks) out += fmt::format(", part {}", key.chunk);
  return out;
}

/// How much of the spans is shown, richest first.
struct Choice {
  uint32_t instances, iterations;
  bool messages;        ///< lanes other than compute, comm and reduce
  bool moves;           ///< comm and reduce
  uint32_t stride = 1;  ///< every so manieth role
  bool shows(Lane lane) const {
    if (lane == Lane::compute) return true;
    return lane == Lane::comm || lane == Lane::reduce ? moves : messages;
  }
};

std::vector<Choice> choices(std::size_t roles) {
  std::vector<Choice> out{{4, 2, true, true},  {2, 2, true, true},   {1, 2, true, true},  {1, 2, false, true},
                          {1, 1, false, true}, {1, 2, false, false}, {1, 1, false, false}};
  for (uint32_t stride = 2; stride < roles; stride *= 2) out.push_back({1, 1, false, false, stride});
  return out;
}

class Entries {
 public:
  Entries(const Program& program, const std::vector<Span>& spans) : program_(program) {
    for (const Span& s : spans) last_ = std::max(last_, s.iteration);
    ordered_.reserve(spans.size());
    for (const Span& s : spans) ordered_.push_back(&s);
    std::stable_sort(ordered_.begin(), ordered_.end(), [](const Span* a, const Span* b) {
      return std::tie(a->instance, a->role, a->iteration, a->op) <
             std::tie(b->instance, b->role, b->iteration, b->op);
    });
  }

  /// More than `most` of them: only some of what they would be.
  std::vector<TimelineEntry> make(const Choice& choice, std::size_t most) {
    std::vector<TimelineEntry> out;
    std::map<Lane, std::size_t> open;  // of the lane: the entry of its latest op
    const Span* before = nullptr;
    for (const Span* s : ordered_) {
      const Op& op = program_.roles[s->role].ops[s->op];
      if (s->instance >= choice.instances || s->iteration + choice.iterations <= last_ ||
          s->role % choice.stride != 0 || !choice.shows(op.lane))
        continue;
      if (before == nullptr || std::tie(before->instance, before->role, before->iteration) !=
                                   std::tie(s->instance, s->role, s->iteration))
        open.clear();
      before = s;
      add(*s, op, open, out);
      if (out.size() > most) return out;
    }
    std::stable_sort(out.begin(), out.end(), [](const TimelineEntry& a, const TimelineEntry& b) {
      return a.start_seconds < b.start_seconds;
    });
    return out;
  }

 private:
  void add(const Span& s, const Op& op, std::map<Lane, std::size_t>& open, std::vector<TimelineEntry>& out) {
    const Role& role = program_.roles[s.role];
    std::vector<std::string>& passes = passes_[s.role];
    if (passes.empty() && role.works()) passes = passes_of(program_, role);
    passes.resize(role.ops.size());
    const std::string& pass = passes[s.op];
    std::string label = program_.labels[op.label];
    if (!pass.empty()) label = of_layers(op.payload) ? "exchange in " + pass : pass;
    const auto at = open.find(op.lane);
    if (!pass.empty() && at != open.end() && out[at->second].label == label &&
        !waited(op, out[at->second], s.start.seconds())) {
      TimelineEntry& e = out[at->second];
      e.end_seconds = std::max(e.end_seconds, s.end.seconds());
      return;
    }
    open[op.lane] = out.size();
    out.push_back({role.name, std::string(name(op.lane)), std::move(label), s.instance, s.iteration,
                   s.start.seconds(), s.end.seconds()});
  }

  /// Updates that wait for a gradient from elsewhere, as of a weight that another stage has too, go on in an
  /// entry of their own: else the wait would look like work.
  bool waited(const Op& op, const TimelineEntry& e, double start) const {
    constexpr double kShort = 1e-4;  // seconds, as launches leave between ops
    const bool update = op.kind == OpKind::compute && program_.tasks[op.what].pass == Pass::update;
    return update && start - e.end_seconds > std::max(kShort, 0.1 * (e.end_seconds - e.start_seconds));
  }

  const Program& program_;
  std::map<uint32_t, std::vector<std::string>> passes_;  ///< [role][op], of those that were asked for
  std::vector<const Span*> ordered_;
  uint32_t last_ = 0;
};

}  // namespace

std::vector<std::string> passes_of(const Program& program, const Role& role) {
  std::vector<std::string> out(role.ops.size());
  const bool chunks = role.slice.ranges.size() > 1;
  PassKey open;
  std::string text;
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const Op& op = role.ops[i];
    if (op.kind == OpKind::compute) {
      const PassKey key = pass_key(program, role, op, open);
      if (!(key == open)) text = pass_text(key, chunks);
      open = key;
      out[i] = text;
    } else if (op.kind == OpKind::collective && of_layers(op.payload) && !received(op.payload) &&
               op.micro == open.micro) {
      out[i] = text;
    }
  }
  return out;
}

bool shows_passes(const Program& program) {
  if (program.grid.axes.empty()) return false;
  bool micro = false;
  for (const Role& role : program.roles) {
    for (const Op& op : role.ops) micro = micro || op.micro > 0;
  }
  return working_roles(program) > 1 || micro;
}

std::vector<TimelineEntry> stage_timeline(const Program& program, const std::vector<Span>& spans,
                                          std::size_t most) {
  Entries entries(program, spans);
  const std::vector<Choice> all = choices(program.roles.size());
  std::vector<TimelineEntry> out;
  for (const Choice& choice : all) {
    out = entries.make(choice, &choice == &all.back() ? SIZE_MAX : most);
    if (out.size() <= most) break;
  }
  return out;
}

}  // namespace tandem::schemes
