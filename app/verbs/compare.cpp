// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "answers/compare.h"
#include "answers/labels.h"
#include "answers/what_if.h"
#include "app/analysis/asking.h"
#include "app/analysis/compare_rows.h"
#include "app/analysis/ops_text.h"
#include "app/console/cli.h"
#include "app/console/goodput_text.h"
#include "app/console/interrupt.h"
#include "app/console/output.h"
#include "app/console/progress_text.h"
#include "app/show/lists.h"
#include "calibration/traces/compare_trace.h"
#include "pictures/comparison_picture.h"
#include "pictures/draw.h"

namespace tandem::app {

namespace {

constexpr std::size_t kMostOps = 20;

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
  for (const std::string& file :
       write_pictures(draw_comparison(Json::parse(document, "the comparison"), base)))
    note(arguments, file);
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

/// "\nEnergy per sample, hosts not counted: A 0.954 J, B 0.61 J.\n" Of several models or numbers of devices
/// each with its name: "vgg16 on 8 devices A 0.954 J, B 0.61 J; ...". `rows`: the sides of each row. Empty
/// where no power is known.
std::string energy_text(const std::vector<std::vector<std::pair<char, const Report*>>>& rows) {
  std::string all;
  for (const auto& sides : rows) {
    std::string each;
    bool any = false;
    for (const auto& [side, r] : sides) {
      const bool known = r->fits && r->time.power;
      any = any || known;
      each += fmt::format("{}{} {}", each.empty() ? "" : ", ", side,
                          known ? fmt::format("{:.3g} J", r->time.power->joules_per_sample)
                                : std::string(r->fits ? "not known" : "does not fit"));
    }
    if (!any) continue;
    const Report& first = *sides.front().second;
    const int64_t n = first.setup.devices;
    all += fmt::format("{}{}{}", all.empty() ? "" : "; ",
                       rows.size() == 1 ? ""
                                        : fmt::format("{} on {} device{} ", report_input(first, "model"), n,
                                                      n == 1 ? "" : "s"),
                       each);
  }
  return all.empty() ? "" : fmt::format("\nEnergy per sample, hosts not counted: {}.\n", all);
}

std::string energy_text(const std::vector<ReportPair>& pairs) {
  std::vector<std::vector<std::pair<char, const Report*>>> rows;
  for (const ReportPair& pair : pairs) rows.push_back({{'A', &pair.a}, {'B', &pair.b}});
  return energy_text(rows);
}

/// Rows begin with side A.
std::string energy_text(const std::vector<OfSeveral>& of) {
  std::vector<std::vector<std::pair<char, const Report*>>> rows;
  for (const OfSeveral& one : of) {
    if (rows.empty() || one.side <= rows.back().back().first) rows.emplace_back();
    rows.back().emplace_back(one.side, &one.report);
  }
  return energy_text(rows);
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

/// Remarks on more than two systems.
std::string rest_of_several(const Comparison& c) {
  if (c.sides.empty()) return "";
  std::string rest;
  for (const Answered& one : c.answered) {
    std::vector<const Report*> sides;
    for (const auto& of : one.reports) sides.push_back(&of.front());
    if (rest.empty()) rest = samples_text(sides);
  }
  std::vector<std::pair<const Question*, const Report*>> asked;
  for (std::size_t s = 0; s < c.sides.size(); ++s)
    asked.emplace_back(c.answered[0].asked[s], &c.answered[0].reports[s].back());
  rest += format_hints(asked);
  return rest.empty() ? "" : "\n" + rest;
}

std::string several_page(const Comparison& c, const std::string& format, int columns) {
  std::string head;
  for (std::size_t i = 0; i < c.labels.size(); ++i)
    head += fmt::format("{}  {}\n", static_cast<char>('A' + i), c.labels[i]);
  std::vector<std::pair<std::string, const Report*>> sides;
  for (const OfSeveral& row : c.rows) sides.emplace_back(std::string(1, row.side), &row.report);
  return head + "\n" + several_table(c.rows).as(format, columns) + unlike_text(c.rows) + energy_text(c.rows) +
         aims_text(sides) + rest_of_several(c);
}

/// A and B in words.
std::string heads(const Comparison& c) {
  if (c.sides.empty()) return fmt::format("A  {}\nB  {}\n", c.names.a, c.names.b);
  const auto& [x, y, asked_x, asked_y] = c.pairs.front();
  const bool board = c.changed && c.sides[0].values == c.sides[1].values;
  return fmt::format("A  {}: {}\n", title_beside(x, y), asked_x->system.summary()) +
         (board ? fmt::format("B  the same{}\n", changed_system("", c.sides[1].sets))
                : fmt::format("B  {}: {}\n", title_beside(y, x), asked_y->system.summary()));
}

std::string pairs_page(const Comparison& c, const std::string& format, int columns) {
  const std::string page =
      heads(c) + "\n" + compare_table(c.pairs).as(format, columns) + reasons(c.pairs) + energy_text(c.pairs);
  if (c.sides.empty()) return page + left_over(c.unpaired) + ops_text(c.pairs, format, columns);
  std::vector<std::pair<std::string, const Report*>> aims;
  for (const ReportPair& pair : c.pairs) aims.insert(aims.end(), {{"A", &pair.a}, {"B", &pair.b}});
  const auto& [x, y, asked_x, asked_y] = c.pairs.front();
  std::string rest = samples_text({&x, &y}) + format_hints({{asked_x, &x}, {asked_y, &y}});
  if (!rest.empty()) rest = "\n" + rest;
  return page + board_text(c.pairs, c.boards) + left_over(c.unpaired) + aims_text(aims) + rest;
}

std::string comparison_csv(const Comparison& c) {
  if (!c.several()) return compare_csv(c.pairs);
  std::vector<Report> reports;
  for (const OfSeveral& row : c.rows) reports.push_back(row.report);
  return report_csv(reports);
}

/// `tandem compare REPORT TRACE`.
int put_trace_comparison(const Arguments& arguments, const std::string& report, const std::string& trace) {
  const std::string format = format_of(arguments);
  const TraceComparison c = compare_trace(report, trace);
  for (const std::string& text : c.notes) note(arguments, text);
  if (format == "json") {
    put_result(arguments, c.json());
    return 0;
  }
  Table table({{"of a step"}, {"predicted ms", true}, {"traced ms", true}, {"difference", true}});
  const auto ms = [](double seconds) { return fmt::format("{:.2f}", 1e3 * seconds); };
  const auto row = [&](const std::string& what, double predicted, double seen) {
    table.add({what, ms(predicted), ms(seen), fmt::format("{:+.2f}", 1e3 * (seen - predicted))});
  };
  row("whole", c.report.iteration.median, c.summary.step_mean);
  for (const TracedPair& p : c.pairs) row(p.what, p.predicted, p.traced);
  if (format == "csv") {
    put_result(arguments, table.as(format));
  } else {
    put_page(arguments,
             fmt::format("predicted  {}\ntraced     {}, {}, rank {} of {}\n\n", report_title(c.report),
                         printable(trace), c.device.empty() ? "device not recorded" : c.device, c.rank,
                         c.world_size) +
                 table.as(format, result_columns(arguments)) + "\n" + c.reason);
  }
  return 0;
}

int run_compare(const Arguments& arguments) {
  const std::string format = format_of(arguments);
  check_out(arguments);
  for (std::size_t i = 0; arguments.words().size() == 2 && !arguments.has("model") && i < 2; ++i) {
    if (!is_trace(arguments.words()[i])) continue;
    if (i == 0 && is_trace(arguments.words()[1]))
      throw UsageError("two traces: compare takes a report and a trace (import kineto sums up each)");
    return put_trace_comparison(arguments, arguments.words()[1 - i], arguments.words()[i]);
  }
  say_interrupts();
  Comparison c;
  {
    Progress progress(arguments);
    c = compare(arguments, arguments.words(), hooks(arguments),
                [&](std::string_view text) { progress.show(text); });
  }
  const bool document = format == "json" || format == "csv";
  if (!c.refusal.empty() && !document) throw InputError(c.refusal);
  const std::string json = format == "json" || arguments.has("plot") ? c.json() : "";
  draw_asked(arguments, json);
  const int columns = result_columns(arguments);
  if (document) {
    put_result(arguments, format == "json" ? json : comparison_csv(c));
  } else {
    put_page(arguments, c.several() ? several_page(c, format, columns) : pairs_page(c, format, columns));
  }
  if (!c.refusal.empty()) throw InputError(c.refusal);
  return 0;
}

std::vector<Option> compare_flags() {
  std::vector<Option> flags = compare_options();
  flags.insert(flags.end(), {format_flag(),
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
