// SPDX-License-Identifier: Apache-2.0
#include "answers/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "answers/answer.h"
#include "answers/fitting.h"
#include "answers/labels.h"
#include "base/data.h"

namespace tandem::answers {

namespace {

constexpr int64_t kMostDevices = 64;

using Show = std::function<void(std::string_view)>;

/// If the two have no count in common, the last of each.
std::vector<ReportPair> paired(const std::vector<Report>& a, const std::vector<Report>& b) {
  std::vector<ReportPair> out = matched(a, b);
  if (out.empty()) out.push_back({a.back(), b.back()});
  return out;
}

/// The reports of a side that are in no pair.
void add_unpaired(char side, const std::vector<Report>& own, const std::vector<ReportPair>& pairs,
                  std::vector<OfSeveral>& out) {
  for (const Report& r : own) {
    const bool told = std::any_of(pairs.begin(), pairs.end(), [&](const ReportPair& p) {
      return (side == 'A' ? p.a : p.b).setup.devices == r.setup.devices;
    });
    if (!told) out.push_back({side, r, nullptr});
  }
}

/// A's report on as many devices, or its last.
const Report& base_of(const std::vector<Report>& a, const Report& of) {
  const auto like =
      std::find_if(a.begin(), a.end(), [&](const Report& x) { return x.setup.devices == of.setup.devices; });
  return like == a.end() ? a.back() : *like;
}

/// For one changed system: up to which batch the change is worth it, and which devices to use.
std::vector<BoardAnswer> board_answers(const std::vector<ReportPair>& pairs, const Show& show) {
  std::vector<BoardAnswer> out;
  for (const ReportPair& pair : pairs) {
    if (show) show(fmt::format("{} with other batches and other devices ...", report_input(pair.a, "model")));
    BoardAnswer answer{worth_of(pair), std::nullopt, std::nullopt};
    answer.a = placements(*pair.asked_a, pair.a);
    answer.b = placements(*pair.asked_b, pair.b);
    out.push_back(std::move(answer));
  }
  return out;
}

/// A rate measured on A calibrates the cards; those of `b` are the same.
void share_anchor(Question& a, Question& b) {
  if (!a.anchor) return;
  const auto card = [](const System& s) { return s.device(s.accelerator(0)).name; };
  if (card(a.system) != card(b.system))
    throw UsageError(fmt::format("--anchor is a rate of A's {} and does not apply to B's {}", card(a.system),
                                 card(b.system)));
  a.anchor->batch = a.batch;
  b.anchor = a.anchor;
  b.anchor->system = &a.system;
}

Answered answer_sides(const Values& values, bool changed, const std::string& model, const Hooks& hooks,
                      const Show& show, Comparison& all) {
  Answered out;
  for (const Side& side : all.sides) {
    Hooks with = hooks;
    if (side.letter != 'A') with.note = {};  // A has noted it already
    Question& q = all.questions.emplace_back(
        with_places(values, [&] { return Question::read(values_of(side, model), with); }));
    out.asked.push_back(&q);
    if (!side.values.has("devices"))
      q.devices = {std::min<int64_t>(q.system.accelerator_count(), kMostDevices)};
  }
  // A machine and its changed version are compared on the counts that both have.
  const bool alone = changed && !values.has("devices");
  if (alone)
    out.asked[0]->devices = out.asked[1]->devices = std::min(out.asked[0]->devices, out.asked[1]->devices);
  for (std::size_t s = 1; s < all.sides.size(); ++s) share_anchor(*out.asked[0], *out.asked[s]);
  for (std::size_t s = 0; s < all.sides.size(); ++s) {
    out.reports.emplace_back();
    for (const int64_t n : out.asked[s]->devices) {
      if (show)
        show(fmt::format("{} on {} device{} of {} ...", out.asked[s]->graph.name(), n, n == 1 ? "" : "s",
                         all.sides[s].letter));
      out.reports.back().push_back(predict(*out.asked[s], n));
    }
  }
  return out;
}

bool any_fits(const std::vector<Answered>& all) {
  for (const Answered& one : all) {
    for (const auto& reports : one.reports) {
      if (std::any_of(reports.begin(), reports.end(), [](const Report& r) { return r.fits; })) return true;
    }
  }
  return false;
}

/// Rows of more than two systems.
void add_rows(Comparison& c) {
  std::vector<Report> first;
  for (const auto& reports : c.answered[0].reports) first.push_back(reports[0]);
  c.labels = distinguishing_labels(first);
  for (const Answered& one : c.answered) {
    const auto& reports = one.reports;
    const bool in_order = std::all_of(reports.begin(), reports.end(),
                                      [&](const auto& of) { return of.size() == reports[0].size(); });
    for (std::size_t n = 0; in_order && n < reports[0].size(); ++n) {
      for (std::size_t s = 0; s < reports.size(); ++s)
        c.rows.push_back({static_cast<char>('A' + s), reports[s][n], &reports[0][n]});
    }
    for (std::size_t s = 0; !in_order && s < reports.size(); ++s) {
      for (const Report& r : reports[s])
        c.rows.push_back({static_cast<char>('A' + s), r, &base_of(reports[0], r)});
    }
  }
  for (std::size_t s = 0; s < c.labels.size(); ++s) {
    if (c.labels[s].empty()) c.labels[s] = report_system(first[s]);
  }
}

/// Pairs of two systems.
void add_pairs(Comparison& c) {
  for (const Answered& one : c.answered) {
    const auto &a = one.reports[0], &b = one.reports[1];
    std::vector<ReportPair> of_model = a.size() == b.size() ? std::vector<ReportPair>{} : paired(a, b);
    for (std::size_t n = 0; a.size() == b.size() && n < a.size(); ++n) of_model.push_back({a[n], b[n]});
    add_unpaired('A', a, of_model, c.unpaired);
    add_unpaired('B', b, of_model, c.unpaired);
    for (ReportPair& pair : of_model) {
      pair.asked_a = one.asked[0], pair.asked_b = one.asked[1];
      same_base(pair);
      c.pairs.push_back(std::move(pair));
    }
  }
  c.names = {report_system(c.pairs.front().a), report_system(c.pairs.front().b)};
}

Comparison compare_systems(const Values& values, const std::vector<std::string>& systems, const Hooks& hooks,
                           const Show& show) {
  const std::vector<std::string> models = split_names(values.all("model"));
  if (values.has("anchor") && models.size() > 1) throw UsageError("--anchor is the rate of one model");
  if (values.has("collective-profile"))
    throw UsageError(
        "collectives are measured on one machine: predict with --collective-profile there, and compare the "
        "reports");
  Comparison out;
  out.sides = with_places(values, [&] { return read_sides(values, systems); });
  out.changed = systems.size() == 1;
  for (const std::string& model : models)
    out.answered.push_back(answer_sides(values, out.changed, model, hooks, show, out));
  const bool fits = any_fits(out.answered);
  if (!fits) out.refusal = add_remedies(*out.answered[0].asked[0], out.answered[0].reports[0]);
  if (out.sides.size() > 2) {
    add_rows(out);
  } else {
    add_pairs(out);
    if (fits && out.changed) out.boards = board_answers(out.pairs, show);
  }
  return out;
}

/// Of more than two: a row per report, relative to A's on the same number of devices, or A's last.
Comparison compare_reports(const std::vector<std::string>& files) {
  Comparison out;
  Answered& all = out.answered.emplace_back();
  std::vector<Report> first;
  for (const std::string& file : files) {
    all.reports.push_back(reports_of(file));
    first.push_back(all.reports.back()[0]);
  }
  if (files.size() > 2) {
    out.labels = distinguishing_labels(first);
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (out.labels[i].empty()) out.labels[i] = report_title(first[i]);
      for (const Report& r : all.reports[i])
        out.rows.push_back({static_cast<char>('A' + i), r, &base_of(all.reports[0], r)});
    }
    return out;
  }
  const auto name = [](const Report& r, const Report& other) {
    return fmt::format("{} ({})", title_beside(r, other), engine_word(r));
  };
  out.pairs = paired(all.reports[0], all.reports[1]);
  out.names = {name(first[0], first[1]), name(first[1], first[0])};
  add_unpaired('A', all.reports[0], out.pairs, out.unpaired);
  add_unpaired('B', all.reports[1], out.pairs, out.unpaired);
  return out;
}

/// Of reports: that they are there, and that nothing else is asked.
void check_reports(const Values& values, const std::vector<std::string>& words) {
  for (const Option& option : question_options()) {
    if (values.has(option.name))
      throw UsageError(fmt::format(
          "--{} is for systems: name a model with --model, or ask predict and compare its reports",
          option.name));
  }
  for (const std::string& word : words) {
    if (word == "-" || is_document(word) || std::ifstream(word)) continue;
    const auto systems = list_data("topologies/systems");
    if (std::find(systems.begin(), systems.end(), spelled_as(word, systems)) != systems.end()) {
      throw UsageError(fmt::format(
          "\"{}\" is a system, not a report: two systems are compared for a model, as in --model resnet50",
          word));
    }
    throw InputError(fmt::format(
        "{}: there is no such report; two systems are compared for a model, as in --model resnet50",
        printable(word)));
  }
  if (words.size() < 2)
    throw UsageError("two reports are compared, or systems for a model, as in --model resnet50");
}

}  // namespace

std::vector<Report> reports_of(const std::string& word) {
  return is_document(word) ? reports_from_json(Json::parse(word, "report")) : load_reports(word);
}

std::string Comparison::json() const {
  return several() ? several_json(rows, labels) : compare_json(pairs, names, boards, unpaired);
}

Comparison compare(const Values& given, std::vector<std::string> words, const Hooks& hooks,
                   const Show& show) {
  // With a question's file its machine is the one that is changed where no other is named.
  std::vector<Option> flags = compare_options();
  if (words.empty()) flags.push_back(question_option("system"));
  const Values values = with_question(given, flags, hooks.note, rules_of_sides());
  if (words.empty()) words = {values.text("system", "")};
  if (values.has("model")) return compare_systems(values, words, hooks, show);
  check_reports(values, words);
  return compare_reports(words);
}

std::vector<Option> compare_options() {
  std::vector<Option> flags;
  for (Option flag : question_options()) {
    if (flag.name == "system") continue;
    if (flag.name == "anchor")
      flag.help = "a rate in samples/s measured on N devices of A; B has the same cards";
    if (flag.name == "model") {
      flag.value = "NAME|FILE[,...]";
      flag.repeatable = true;
      flag.help = "compare the systems A and B for this model, or for several";
    }
    if (flag.name == "devices")
      flag.help = "device counts; default all that each side has, at most 64; --devices A:4 --devices B:2";
    flags.push_back(flag);
    if (flag.name == "set") flags.push_back({"set-b", "PATH=VALUE", "the same of B only", true});
  }
  let_sides_say(flags);
  flags.push_back(question_flag());
  return flags;
}

}  // namespace tandem::answers
