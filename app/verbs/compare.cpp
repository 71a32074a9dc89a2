// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <fstream>

#include "answers/answer.h"
#include "answers/board.h"
#include "answers/fitting.h"
#include "answers/what_if.h"
#include "app/analysis/asking.h"
#include "app/analysis/compare_ops.h"
#include "app/analysis/compare_rows.h"
#include "app/analysis/compare_trace.h"
#include "app/analysis/sides.h"
#include "app/console/cli.h"
#include "app/console/goodput_text.h"
#include "app/console/interrupt.h"
#include "app/console/output.h"
#include "app/console/progress_text.h"
#include "app/pictures/comparison_picture.h"
#include "app/pictures/draw.h"
#include "app/show/lists.h"
#include "base/data.h"

namespace tandem::app {

namespace {

constexpr std::size_t kMostOps = 20;
constexpr int64_t kMostDevices = 64;

/// The timelines of the most devices that hold both, as text; empty if one side has none.
std::string ops_text(const std::vector<ReportPair>& pairs, const std::string& format, int columns) {
  const auto rank = [](const ReportPair& p) { return std::pair(p.a.fits && p.b.fits, p.a.setup.devices); };
  const auto& [x, y, asked_x, asked_y] =
      *std::max_element(pairs.begin(), pairs.end(),
                        [&](const ReportPair& p, const ReportPair& q) { return rank(p) < rank(q); });
  const OpComparison c = compare_ops(x, y);
  if (c.ops.empty()) return "";
  const bool apart = x.evaluation.engine != y.evaluation.engine;
  const std::string left = apart ? "A " + engine_word(x) : "A";
  const std::string right = apart ? "B " + engine_word(y) : "B";
  std::string out = fmt::format("\nOne worker of {}, milliseconds an iteration\n\n{}\n{}", x.setup.devices,
                                op_table(c.lanes, left, right, c.lanes.size()).as(format, columns),
                                op_table(c.ops, left, right, kMostOps).as(format, columns));
  if (c.ops.size() > kMostOps)
    out += fmt::format("... and {} ops that differ less (--format json has all)\n", c.ops.size() - kMostOps);
  return out + "\n" + largest_disagreement(c, x, y) + "\n";
}

std::string reasons(const std::vector<ReportPair>& pairs) {
  std::string out;
  for (const ReportPair& pair : pairs) {
    if (const std::string text = reason_text(pair); !text.empty()) out += text + ".\n";
  }
  std::vector<Report> a, b;
  for (const ReportPair& pair : pairs) a.push_back(pair.a), b.push_back(pair.b);
  const std::string of_a = base_text(a), of_b = base_text(b);
  if (!of_a.empty() && of_a == of_b) {
    out += fmt::format("A and B: {}\n", of_a);
  } else {
    for (const auto& [side, base] : {std::pair{"A", of_a}, std::pair{"B", of_b}})
      if (!base.empty()) out += fmt::format("{}: {}\n", side, base);
  }
  return out.empty() ? "" : "\n" + out;
}

/// With --plot, of a document of a comparison.
void draw_asked(const Arguments& arguments, const std::string& document) {
  if (!arguments.has("plot")) return;
  const std::string base = picture_base(arguments.text("plot", ""), "comparison");
  for (const std::string& file : draw_comparison(Json::parse(document, "the comparison"), base))
    note(arguments, file);
}

/// What is compared, with the names of A and B for text, further remarks, and what has no counterpart.
struct Comparison {
  std::vector<ReportPair> pairs;
  Names names;
  std::string head, rest;
  std::vector<OfSeveral> unpaired;
  std::vector<BoardAnswer> boards = {};
};

void put_comparison(const Arguments& arguments, const Comparison& c) {
  const std::string format = format_of(arguments);
  const auto& pairs = c.pairs;
  if (format == "json" || arguments.has("plot")) {
    const std::string document = compare_json(pairs, c.names, c.boards, c.unpaired);
    draw_asked(arguments, document);
    if (format == "json") return put_result(arguments, document);
  }
  if (format == "csv") return put_result(arguments, compare_csv(pairs));
  put_page(arguments, c.head + "\n" + compare_table(pairs).as(format, result_columns(arguments)) +
                          reasons(pairs) + c.rest);
}

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

/// "Only A has 4 devices: 362 samples/s."
std::string left_over(const std::vector<OfSeveral>& unpaired) {
  std::string out;
  for (const OfSeveral& one : unpaired) {
    const Report& r = one.report;
    out += fmt::format("Only {} has {} device{}: {}.\n", one.side, r.setup.devices,
                       r.setup.devices == 1 ? "" : "s",
                       r.fits ? grouped(r.rate.samples_per_second) + " samples/s" : needs_text(r));
  }
  return out.empty() ? "" : "\n" + out;
}

/// Times to a target and losses to failures, side by side.
std::string aims_text(const std::vector<std::pair<std::string, const Report*>>& sides) {
  std::string out;
  for (const auto& [side, report] : sides) {
    for (const std::string& text : {goodput_lines(*report), progress_lines({*report})}) {
      if (!text.empty())
        out += fmt::format("{}, {} device{}: {}", side, report->setup.devices,
                           report->setup.devices == 1 ? "" : "s", text);
    }
  }
  return out.empty() ? "" : "\n" + out;
}

/// "B has 2 devices, A 4: a device of B is 1.3 times as fast as one of A."
std::string unlike_text(const std::vector<OfSeveral>& rows) {
  std::string out;
  for (const OfSeveral& row : rows) {
    const auto each = over_base_by_device(row);
    if (!each || row.base->setup.devices == row.report.setup.devices) continue;
    const int64_t n = row.report.setup.devices;
    out +=
        fmt::format("{0} has {1} device{2}, A {3}: a device of {0} is {4:.3g} times as fast as one of A.\n",
                    row.side, n, n == 1 ? "" : "s", row.base->setup.devices, *each);
  }
  return out.empty() ? "" : "\n" + out;
}

void put_several(const Arguments& arguments, const std::vector<OfSeveral>& rows,
                 const std::vector<std::string>& names, const std::string& rest) {
  const std::string format = format_of(arguments);
  if (format == "json" || arguments.has("plot")) {
    const std::string document = several_json(rows, names);
    draw_asked(arguments, document);
    if (format == "json") return put_result(arguments, document);
  }
  if (format == "csv") {
    std::vector<Report> reports;
    for (const OfSeveral& row : rows) reports.push_back(row.report);
    return put_result(arguments, report_csv(reports));
  }
  std::string head;
  for (std::size_t i = 0; i < names.size(); ++i)
    head += fmt::format("{}  {}\n", static_cast<char>('A' + i), names[i]);
  std::vector<std::pair<std::string, const Report*>> sides;
  for (const OfSeveral& row : rows) sides.emplace_back(std::string(1, row.side), &row.report);
  put_page(arguments, head + "\n" + several_table(rows).as(format, result_columns(arguments)) +
                          unlike_text(rows) + aims_text(sides) + rest);
}

/// A's report on as many devices, or its last.
const Report& base_of(const std::vector<Report>& a, const Report& of) {
  const auto like =
      std::find_if(a.begin(), a.end(), [&](const Report& x) { return x.setup.devices == of.setup.devices; });
  return like == a.end() ? a.back() : *like;
}

/// More than two files: a row per report, relative to A's on the same number of devices, or A's last.
int compare_several_reports(const Arguments& arguments) {
  std::vector<std::vector<Report>> all;
  std::vector<Report> first;
  for (const std::string& file : arguments.words()) {
    all.push_back(load_reports(file));
    first.push_back(all.back()[0]);
  }
  std::vector<std::string> names = distinguishing_labels(first);
  std::vector<OfSeveral> rows;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (names[i].empty()) names[i] = report_title(first[i]);
    for (const Report& r : all[i]) rows.push_back({static_cast<char>('A' + i), r, &base_of(all[0], r)});
  }
  put_several(arguments, rows, names, "");
  return 0;
}

int compare_reports(const Arguments& arguments) {
  if (arguments.words().size() > 2) return compare_several_reports(arguments);
  const std::string format = format_of(arguments);
  const auto a = load_reports(arguments.words()[0]);
  const auto b = load_reports(arguments.words()[1]);
  const auto pairs = paired(a, b);
  const bool prose = format == "text" || format == "md";
  const auto name = [](const Report& r, const Report& other) {
    return fmt::format("{} ({})", title_beside(r, other), engine_word(r));
  };
  const Names names = {name(a[0], b[0]), name(b[0], a[0])};
  Comparison out{pairs, names, fmt::format("A  {}\nB  {}\n", names.a, names.b), "", {}};
  add_unpaired('A', a, pairs, out.unpaired);
  add_unpaired('B', b, pairs, out.unpaired);
  if (prose) out.rest = left_over(out.unpaired) + ops_text(pairs, format, result_columns(arguments));
  put_comparison(arguments, out);
  return 0;
}

/// For one changed system: up to which batch the change is worth it, and which devices to use.
std::vector<BoardAnswer> board_answers(const Arguments& arguments, const std::vector<ReportPair>& pairs) {
  std::vector<BoardAnswer> out;
  if (arguments.words().size() > 1) return out;
  Progress progress(arguments);
  for (const ReportPair& pair : pairs) {
    progress.show(fmt::format("{} with other batches and other devices ...", report_input(pair.a, "model")));
    BoardAnswer answer{worth_of(pair), std::nullopt, std::nullopt};
    answer.a = placements(*pair.asked_a, pair.a);
    answer.b = placements(*pair.asked_b, pair.b);
    out.push_back(std::move(answer));
  }
  return out;
}

std::string board_text(const std::vector<ReportPair>& pairs, const std::vector<BoardAnswer>& boards) {
  std::string worth, places;
  for (std::size_t i = 0; i < boards.size(); ++i) {
    const BoardAnswer& answer = boards[i];
    if (const std::string text = worth_text(pairs[i], answer.worth); !text.empty()) worth += text + ".\n";
    const std::string model = report_input(pairs[i].a, "model");
    for (const auto& [side, placed] : {std::pair{"A", answer.a}, std::pair{"B", answer.b}}) {
      if (!placed) continue;
      const std::string text = placement_text(*placed, side, pairs[i].a.setup.devices);
      if (!text.empty()) places += fmt::format("{}: {}.\n", model, text);
    }
  }
  if (!worth.empty()) worth = "\nWorth it? By batch, in powers of two:\n" + worth;
  if (const std::string models = boards.empty() ? "" : worth_by_model(pairs); !models.empty())
    worth += models + ".\n";
  return worth + (places.empty() ? "" : "\n" + places);
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

/// Answers of all sides for one model, [side][count].
struct Answered {
  std::vector<Question*> asked;
  std::vector<std::vector<Report>> reports;
};

Answered answer_sides(const Arguments& arguments, const std::string& model, const std::vector<Side>& sides,
                      std::deque<Question>& questions) {
  Progress progress(arguments);
  Answered out;
  for (const Side& side : sides) {
    Hooks with = hooks(arguments);
    if (side.letter != 'A') with.note = {};  // A has noted it already
    Question& q = questions.emplace_back(
        with_places(arguments, [&] { return Question::read(values_of(side, model), with); }));
    out.asked.push_back(&q);
    if (!side.arguments.has("devices"))
      q.devices = {std::min<int64_t>(q.system.accelerator_count(), kMostDevices)};
  }
  // A machine and its changed version are compared on the counts that both have.
  const bool alone = arguments.words().size() == 1 && !arguments.has("devices");
  if (alone)
    out.asked[0]->devices = out.asked[1]->devices = std::min(out.asked[0]->devices, out.asked[1]->devices);
  for (std::size_t s = 0; s < sides.size(); ++s) {
    Question& q = *out.asked[s];
    if (s > 0) share_anchor(*out.asked[0], q);
  }
  for (std::size_t s = 0; s < sides.size(); ++s) {
    out.reports.emplace_back();
    for (const int64_t n : out.asked[s]->devices) {
      progress.show(fmt::format("{} on {} device{} of {} ...", out.asked[s]->graph.name(), n,
                                n == 1 ? "" : "s", sides[s].letter));
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

/// The effect of the fastest smaller format if a side is compute-bound in fp32.
std::string format_hints(const std::vector<std::pair<const Question*, const Report*>>& sides) {
  std::string out;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const std::string hint = format_hint(*sides[i].first, *sides[i].second);
    if (!hint.empty()) out += fmt::format("{}: {}\n", static_cast<char>('A' + i), hint);
  }
  return out;
}

/// Notes that the sides have different samples per step, so that their rates are of different trainings.
std::string samples_text(const std::vector<const Report*>& sides) {
  std::string each;
  bool unlike = false;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    unlike = unlike || sides[i]->setup.samples_per_iteration != sides[0]->setup.samples_per_iteration;
    each += fmt::format("{}{} {}", i == 0 ? "" : ", ", static_cast<char>('A' + i),
                        whole(sides[i]->setup.samples_per_iteration));
  }
  return unlike ? fmt::format("Samples in a step: {} (--batch B:64 sets it for one side).\n", each) : "";
}

void put_many(const Arguments& arguments, const std::vector<Answered>& all) {
  std::vector<OfSeveral> rows;
  std::vector<Report> first;
  for (const auto& reports : all[0].reports) first.push_back(reports[0]);
  std::vector<std::string> names = distinguishing_labels(first);
  std::string rest;
  for (const Answered& one : all) {
    const auto& reports = one.reports;
    const bool in_order = std::all_of(reports.begin(), reports.end(),
                                      [&](const auto& of) { return of.size() == reports[0].size(); });
    for (std::size_t n = 0; in_order && n < reports[0].size(); ++n) {
      for (std::size_t s = 0; s < reports.size(); ++s)
        rows.push_back({static_cast<char>('A' + s), reports[s][n], &reports[0][n]});
    }
    for (std::size_t s = 0; !in_order && s < reports.size(); ++s) {
      for (const Report& r : reports[s])
        rows.push_back({static_cast<char>('A' + s), r, &base_of(reports[0], r)});
    }
    std::vector<const Report*> sides;
    for (const auto& of : reports) sides.push_back(&of.front());
    if (rest.empty()) rest = samples_text(sides);
  }
  std::vector<std::pair<const Question*, const Report*>> asked;
  for (std::size_t s = 0; s < names.size(); ++s) {
    if (names[s].empty()) names[s] = report_system(first[s]);
    asked.emplace_back(all[0].asked[s], &all[0].reports[s].back());
  }
  rest += format_hints(asked);
  put_several(arguments, rows, names, rest.empty() ? "" : "\n" + rest);
}

void put_two(const Arguments& arguments, const std::vector<Answered>& all, const std::vector<Side>& sides) {
  std::vector<ReportPair> pairs;
  std::vector<OfSeveral> unpaired;
  for (const Answered& one : all) {
    const auto &a = one.reports[0], &b = one.reports[1];
    std::vector<ReportPair> of_model = a.size() == b.size() ? std::vector<ReportPair>{} : paired(a, b);
    for (std::size_t n = 0; a.size() == b.size() && n < a.size(); ++n) of_model.push_back({a[n], b[n]});
    add_unpaired('A', a, of_model, unpaired);
    add_unpaired('B', b, of_model, unpaired);
    for (ReportPair& pair : of_model) {
      pair.asked_a = one.asked[0], pair.asked_b = one.asked[1];
      same_base(pair);
      pairs.push_back(std::move(pair));
    }
  }
  const auto boards = any_fits(all) ? board_answers(arguments, pairs) : std::vector<BoardAnswer>{};
  const auto& [x, y, asked_x, asked_y] = pairs.front();
  const std::string changes = changed_system("", sides[1].sets);
  const bool alone = arguments.words().size() == 1, board = sides[0].arguments == sides[1].arguments;
  const std::string head =
      fmt::format("A  {}: {}\n", title_beside(x, y), asked_x->system.summary()) +
      (alone && board ? fmt::format("B  the same{}\n", changes)
                      : fmt::format("B  {}: {}\n", title_beside(y, x), asked_y->system.summary()));
  const Names names = {report_system(x), report_system(y)};
  std::vector<std::pair<std::string, const Report*>> aims;
  for (const ReportPair& pair : pairs) aims.insert(aims.end(), {{"A", &pair.a}, {"B", &pair.b}});
  std::string rest = samples_text({&x, &y}) + format_hints({{asked_x, &x}, {asked_y, &y}});
  if (!rest.empty()) rest = "\n" + rest;
  put_comparison(arguments, {pairs, names, head,
                             board_text(pairs, boards) + left_over(unpaired) + aims_text(aims) + rest,
                             unpaired, boards});
}

int compare_systems(const Arguments& arguments) {
  check_out(arguments);
  say_interrupts();
  const std::vector<std::string> models = split_names(arguments.all("model"));
  if (arguments.has("anchor") && models.size() > 1) throw UsageError("--anchor is the rate of one model");
  if (arguments.has("collective-profile"))
    throw UsageError(
        "collectives are measured on one machine: predict with --collective-profile there, and compare the "
        "reports");
  const std::vector<Side> sides = with_places(arguments, [&] { return read_sides(arguments); });
  std::deque<Question> questions;  // answers point into it
  std::vector<Answered> all;
  for (const std::string& model : models) all.push_back(answer_sides(arguments, model, sides, questions));
  const std::string refusal = any_fits(all) ? "" : add_remedies(*all[0].asked[0], all[0].reports[0]);
  const bool document = format_of(arguments) == "json" || format_of(arguments) == "csv";
  if (!refusal.empty() && !document) throw InputError(refusal);
  if (sides.size() > 2)
    put_many(arguments, all);
  else
    put_two(arguments, all, sides);
  if (!refusal.empty()) throw InputError(refusal);
  return 0;
}

std::vector<Option> compare_flags();

/// With a question's file, whose machine is the one that is changed where no other is named.
Arguments asked_to_compare(const Arguments& given) {
  std::vector<Option> flags = compare_flags();
  if (given.words().empty()) flags.push_back(question_option("system"));
  const Arguments out = with_question(given, flags, rules_of_sides());
  return given.words().empty() ? Arguments(out, {out.text("system", "")}) : out;
}

int run_compare(const Arguments& given) {
  const Arguments arguments = asked_to_compare(given);
  if (arguments.has("model")) return compare_systems(arguments);
  for (const Option& option : question_options()) {
    if (arguments.has(option.name))
      throw UsageError(fmt::format(
          "--{} is for systems: name a model with --model, or ask predict and compare its reports",
          option.name));
  }
  for (std::size_t i = 0; arguments.words().size() == 2 && i < 2; ++i) {
    if (!is_trace(arguments.words()[i])) continue;
    if (i == 0 && is_trace(arguments.words()[1]))
      throw UsageError("two traces: compare takes a report and a trace (import kineto sums up each)");
    return put_trace_comparison(arguments, arguments.words()[1 - i], arguments.words()[i]);
  }
  for (const std::string& word : arguments.words()) {
    if (word == "-" || std::ifstream(word)) continue;
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
  if (arguments.words().size() < 2)
    throw UsageError("two reports are compared, or systems for a model, as in --model resnet50");
  return compare_reports(arguments);
}

std::vector<Option> compare_flags() {
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
  flags.insert(flags.end(), {question_flag(),
                             format_flag(),
                             {"plot", "BASE", "also draw how many times faster than A: BASE.png, BASE.svg"},
                             out_flag(),
                             wide_flag(),
                             quiet_flag()});
  return flags;
}

}  // namespace

void register_compare(Registry<Verb>& registry) {
  registry.add(
      {.name = "compare",
       .summary = "what changes and why: two systems for a model, or two reports (predicted, "
                  "executed, before, after), or a report and a profiler's trace",
       .usage = "SYSTEM [SYSTEM...] --model NAME [options] | REPORT REPORT... | REPORT TRACE",
       .flags = compare_flags(),
       .least_words = 1,
       .most_words = 26,
       .next = [](const std::vector<std::string>&) { return listed_names("systems"); },
       .run = run_compare,
       .details =
           "One system is compared with itself changed: without a kind of link, with NVLink bridges, other "
           "cards, other slots (--set-b links.pcie.width=x8) or other devices of the board. The answer adds "
           "the batch up to which the change is worth 3 %, and which devices to use. --place applies to both "
           "sides unless it is the only change.\n\n"
           "With several systems every option applies to all, even --swap and --without, unless it begins "
           "with the letter of one: --swap A:device=rtx-4090, --devices B:2, --scheme C:horovod.\n\n"
           "--question gives the options of all sides, and without a system the one to change.\n\n"
           "Reports come from: tandem predict or tandem run, with --format json --out FILE. Where "
           "both keep a timeline, ops and lanes are compared too, and the largest disagreement is "
           "named.\n\nExamples\n"
           "  tandem compare v100-pcie-8x dgx1-v100 --model vgg16,resnet50 --scheme pytorch-ddp\n"
           "  tandem compare a100-pcie-4x --with-bridges 0-1,2-3 --model vgg16,resnet50 --precision fp16\n"
           "  tandem compare 2080ti-nvlink-8x --without nvlink --model vgg16 --devices 4,8\n"
           "  tandem compare 2080ti-nvlink-8x --place 2,3 --model vgg16\n"
           "  tandem compare 4090-pcie-8x 5090-2x a100-pcie-4x --model vit-b16 --devices A:4 --devices B:2 "
           "--devices C:4\n"
           "  tandem compare dgx-h100 dgx-h100 --set nodes=4 --set-b network.bandwidth=200Gbit/s "
           "--model vgg16"});
}

}  // namespace tandem::app
