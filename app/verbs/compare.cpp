// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include "base/json_writer.h"

#include "app/analysis/answer.h"
#include "app/analysis/board.h"
#include "app/analysis/compare_ops.h"
#include "app/analysis/question.h"
#include "app/analysis/why.h"
#include "app/console/cli.h"
#include "app/console/output.h"
#include "base/data.h"

namespace tandem::app {

namespace {

constexpr std::size_t kMostOps = 20;
constexpr int64_t kMostDevices = 64;

JsonWriter pairs_json(const std::vector<OpPair>& pairs) {
  auto out = JsonWriter::array();
  for (const OpPair& p : pairs) {
    JsonWriter row = {{"lane", p.lane}};
    if (!p.label.empty()) row["op"] = p.label;
    row["a_seconds"] = p.a;
    row["b_seconds"] = p.b;
    out.push_back(std::move(row));
  }
  return out;
}

JsonWriter side_json(const Report& r) {
  JsonWriter out = {{"title", report_title(r)},
                    {"model", report_input(r, "model")},
                    {"engine", r.engine},
                    {"fits", r.fits}};
  if (r.fits) {
    out["samples_per_second"] = r.samples_per_second;
    out["samples_per_second_interval"] = {
        {"low", r.interval.low}, {"high", r.interval.high}, {"level", r.interval.level}};
    out["scaling_efficiency"] = r.scaling_efficiency;
    out["bottleneck"] = r.bottleneck.resource;
    out["speedup_base_devices"] = r.speedup_base_devices;
  } else {
    out["samples_per_second"] = nullptr;
    out["needs_bytes"] = r.memory.needed().n;
  }
  out["memory_bytes_per_device"] = r.memory.needed().n;
  return out;
}

using NamedCells = std::vector<std::pair<const char*, std::string>>;

/// A row of csv: what a side that does not fit lacks stays empty.
NamedCells csv_row(const ReportPair& pair) {
  const Report &x = pair.a, &y = pair.b;
  const bool both = x.fits && y.fits;
  const Report::Interval ratio = both ? ratio_interval(x, y) : Report::Interval{};
  const Swap swap = both ? swap_parts(pair) : Swap{};
  const auto real = [](bool there, double v) { return there ? fmt::format("{:.9g}", v) : ""; };
  const auto truth = [](bool v) { return v ? "true" : "false"; };
  return {{"model", report_input(x, "model")},
          {"devices", std::to_string(x.devices)},
          {"a_system", report_input(x, "system")},
          {"b_system", report_input(y, "system")},
          {"a_samples_per_second", real(x.fits, x.samples_per_second)},
          {"b_samples_per_second", real(y.fits, y.samples_per_second)},
          {"ratio", real(both, y.samples_per_second / x.samples_per_second)},
          {"ratio_low", real(both, ratio.low)},
          {"ratio_high", real(both, ratio.high)},
          {"a_scaling_efficiency", real(x.fits, x.scaling_efficiency)},
          {"b_scaling_efficiency", real(y.fits, y.scaling_efficiency)},
          {"a_memory_bytes", std::to_string(x.memory.needed().n)},
          {"b_memory_bytes", std::to_string(y.memory.needed().n)},
          {"a_bottleneck", x.fits ? x.bottleneck.resource : ""},
          {"b_bottleneck", y.fits ? y.bottleneck.resource : ""},
          {"only_devices_changed_ratio", real(swap.devices.has_value(), swap.devices.value_or(0))},
          {"only_links_and_host_changed_ratio", real(swap.rest.has_value(), swap.rest.value_or(0))},
          {"a_scheme", report_input(x, "scheme")},
          {"b_scheme", report_input(y, "scheme")},
          {"a_engine", x.engine},
          {"b_engine", y.engine},
          {"a_batch_per_device", std::to_string(x.batch_per_device)},
          {"b_batch_per_device", std::to_string(y.batch_per_device)},
          {"a_fits", truth(x.fits)},
          {"b_fits", truth(y.fits)},
          {"a_samples_per_second_low", real(x.fits, x.interval.low)},
          {"a_samples_per_second_high", real(x.fits, x.interval.high)},
          {"b_samples_per_second_low", real(y.fits, y.interval.low)},
          {"b_samples_per_second_high", real(y.fits, y.interval.high)},
          {"a_staleness_mean", real(x.fits, x.staleness.mean())},
          {"b_staleness_mean", real(y.fits, y.staleness.mean())}};
}

/// `pairs`: one at least.
std::string compare_csv(const std::vector<ReportPair>& pairs) {
  std::vector<Column> columns;
  for (const auto& [head, cell] : csv_row(pairs.front())) columns.push_back({head});
  Table table(std::move(columns));
  for (const ReportPair& pair : pairs) {
    std::vector<std::string> cells;
    for (auto& [head, cell] : csv_row(pair)) cells.push_back(std::move(cell));
    table.add(std::move(cells));
  }
  return table.csv();
}

/// "only B holds it, A needs 33 of 16 GiB" where not both do, else why().
std::string reason_text(const ReportPair& pair) {
  const Report &a = pair.a, &b = pair.b;
  if (a.fits && b.fits) return why(pair).text;
  const std::string model =
      fmt::format("{} on {} device{}", report_input(b, "model"), b.devices, b.devices == 1 ? "" : "s");
  if (!a.fits && !b.fits)
    return fmt::format("{}: neither holds it, A {}, B {}", model, needs_text(a), needs_text(b));
  return fmt::format("{}: only {} holds it, {} {}", model, a.fits ? "A" : "B", a.fits ? "B" : "A",
                     needs_text(a.fits ? b : a));
}

/// What there is to say of a board that was changed, one per pair.
struct BoardAnswer {
  Worth worth;
  std::optional<Placements> a, b;
};

JsonWriter board_json(const BoardAnswer& answer) {
  const auto side = [](const std::optional<Placements>& p) -> JsonWriter {
    if (!p) return nullptr;
    const auto choice = [](const Placements::Choice& c) {
      return JsonWriter{{"devices", c.devices}, {"samples_per_second", c.rate}};
    };
    return {{"used", choice(p->used)}, {"best", choice(p->best)}, {"worst", choice(p->worst)}};
  };
  JsonWriter out = {{"worth_from", kWorth}, {"largest_batch", nullptr}, {"batches", JsonWriter::array()}};
  if (const auto largest = answer.worth.largest()) out["largest_batch"] = largest->batch;
  for (const Worth::At& at : answer.worth.at)
    out["batches"].push_back({{"batch_per_device", at.batch}, {"samples_per_second_ratio", 1 + at.gain}});
  out["placement"] = {{"a", side(answer.a)}, {"b", side(answer.b)}};
  return out;
}

/// Who is compared, in words.
struct Names {
  std::string a, b;
};

std::string compare_json(const std::vector<ReportPair>& pairs, const Names& names,
                         const std::vector<BoardAnswer>& boards) {
  JsonWriter out = {
      {"schema", "tandem-compare-1"}, {"a", names.a}, {"b", names.b}, {"rows", JsonWriter::array()}};
  for (const ReportPair& pair : pairs) {
    const Report &x = pair.a, &y = pair.b;
    const OpComparison ops = compare_ops(x, y);
    const auto ratio = [](double to, double from) { return from > 0 ? to / from : 0.0; };
    JsonWriter row = {{"devices", x.devices}, {"a", side_json(x)}, {"b", side_json(y)}};
    const auto set = [&](const char* key, double value) {
      row[key] = x.fits && y.fits ? JsonWriter::finite_or_null(value) : nullptr;
    };
    set("samples_per_second_ratio", ratio(y.samples_per_second, x.samples_per_second));
    set("iteration_ratio", ratio(y.iteration_median, x.iteration_median));
    set("staleness_mean_difference", y.staleness.mean() - x.staleness.mean());
    row["memory_ratio"] =
        ratio(static_cast<double>(y.memory.needed().n), static_cast<double>(x.memory.needed().n));
    if (x.fits && y.fits) {
      const Report::Interval interval = ratio_interval(x, y);
      row["samples_per_second_ratio_interval"] = {{"low", JsonWriter::finite_or_null(interval.low)},
                                                  {"high", JsonWriter::finite_or_null(interval.high)},
                                                  {"level", interval.level}};
      const Reason reason = why(pair);
      if (reason.swap.devices)
        row["only_devices_changed_ratio"] = JsonWriter::finite_or_null(*reason.swap.devices);
      if (reason.swap.rest)
        row["only_links_and_host_changed_ratio"] = JsonWriter::finite_or_null(*reason.swap.rest);
    }
    if (const std::string text = reason_text(pair); !text.empty()) row["why"] = text;
    if (!boards.empty()) row["board"] = board_json(boards[static_cast<std::size_t>(&pair - pairs.data())]);
    row["lanes"] = pairs_json(ops.lanes);
    row["ops"] = pairs_json(ops.ops);
    out["rows"].push_back(std::move(row));
  }
  return out.dump(2);
}

/// The timelines of the most devices that hold both, as text; empty when one side keeps none.
std::string ops_text(const std::vector<ReportPair>& pairs, const std::string& format, int columns) {
  const auto rank = [](const ReportPair& p) { return std::pair(p.a.fits && p.b.fits, p.a.devices); };
  const auto& [x, y, asked_x, asked_y] =
      *std::max_element(pairs.begin(), pairs.end(),
                        [&](const ReportPair& p, const ReportPair& q) { return rank(p) < rank(q); });
  const OpComparison c = compare_ops(x, y);
  if (c.ops.empty()) return "";
  const bool apart = x.engine != y.engine;
  const std::string left = apart ? "A " + engine_word(x) : "A";
  const std::string right = apart ? "B " + engine_word(y) : "B";
  std::string out = fmt::format("\nOne worker of {}, milliseconds an iteration\n\n{}\n{}", x.devices,
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
  for (const auto& [side, reports] : {std::pair{"A", a}, std::pair{"B", b}}) {
    if (const std::string base = base_text(reports); !base.empty())
      out += fmt::format("{}: {}\n", side, base);
  }
  return out.empty() ? "" : "\n" + out;
}

/// `head`: who A and B are, for text; `rest`: what else there is to say.
void put_comparison(const Arguments& arguments, const std::vector<ReportPair>& pairs, const Names& names,
                    const std::string& head, const std::string& rest,
                    const std::vector<BoardAnswer>& boards = {}) {
  const std::string format = format_of(arguments);
  if (format == "json") return put_result(arguments, compare_json(pairs, names, boards));
  if (format == "csv") return put_result(arguments, compare_csv(pairs));
  put_page(arguments,
           head + "\n" + compare_table(pairs).as(format, result_columns(arguments)) + reasons(pairs) + rest);
}

int compare_reports(const Arguments& arguments) {
  const std::string format = format_of(arguments);
  const auto a = load_reports(arguments.words()[0]);
  const auto b = load_reports(arguments.words()[1]);
  const auto pairs = matched(a, b);
  if (pairs.empty()) {
    throw InputError(fmt::format("{} and {} have no device count in common", printable(arguments.words()[0]),
                                 printable(arguments.words()[1])));
  }
  if (pairs.size() < std::max(a.size(), b.size()))
    note(arguments, "device counts that only one of the files holds are left out");
  const bool prose = format == "text" || format == "md";
  const auto name = [](const Report& r) { return fmt::format("{} ({})", report_title(r), engine_word(r)); };
  const Names names = {name(a[0]), name(b[0])};
  put_comparison(arguments, pairs, names, fmt::format("A  {}\nB  {}\n", names.a, names.b),
                 prose ? ops_text(pairs, format, result_columns(arguments)) : "");
  return 0;
}

/// What the options make of both sides.
struct Sides {
  System::Sets a, b;
  std::string changes;  ///< of B over A, in words
};

Sides read_sides(const Arguments& arguments) {
  Sides out{read_sets(arguments), {}, {}};
  auto changes = read_board_changes(arguments);
  auto own = read_sets(arguments, "set-b");
  const bool alone = arguments.words().size() == 1;
  if (alone && changes.empty() && own.empty())
    throw UsageError(
        "one system is compared with itself changed: --without, --with-bridges, --swap, --place or --set-b "
        "says "
        "how; or name a second system");
  // Devices are chosen on both sides, unless nothing else tells the sides apart.
  const auto place =
      std::find_if(changes.begin(), changes.end(), [](const auto& c) { return c.first == "place"; });
  if (place != changes.end() && (!alone || changes.size() > 1 || !own.empty())) {
    out.a.push_back(*place);
    changes.erase(place);
  }
  out.b = out.a;
  changes.insert(changes.end(), own.begin(), own.end());
  for (const auto& [path, value] : changes) {
    if (path != "without") std::erase_if(out.b, [&, &path = path](const auto& s) { return s.first == path; });
    out.b.emplace_back(path, value);
    out.changes += (out.changes.empty() ? "" : ", ") + change_words(path, value);
  }
  return out;
}

/// Of one system that was changed: up to which batch that is worth it, and which devices to use.
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
      const std::string text = placement_text(*placed, side, pairs[i].a.devices);
      if (!text.empty()) places += fmt::format("{}: {}.\n", model, text);
    }
  }
  if (!worth.empty()) worth = "\nWorth it? By batch, in powers of two:\n" + worth;
  if (const std::string models = boards.empty() ? "" : worth_by_model(pairs); !models.empty())
    worth += models + ".\n";
  return worth + (places.empty() ? "" : "\n" + places);
}

/// A rate measured on A says how fast the cards are; B's are the same.
void share_anchor(Question& a, Question& b) {
  if (!a.anchor) return;
  const auto card = [](const System& s) { return s.device(s.accelerator(0)).name; };
  if (card(a.system) != card(b.system))
    throw UsageError(fmt::format("--anchor is a rate of A's {}, and says nothing of B's {}", card(a.system),
                                 card(b.system)));
  a.anchor->batch = a.batch;
  b.anchor = a.anchor;
  b.anchor->system = &a.system;
}

int compare_systems(const Arguments& arguments) {
  check_out(arguments);
  const std::vector<std::string> models = split_names(arguments.all("model"));
  if (arguments.has("anchor") && models.size() > 1) throw UsageError("--anchor is the rate of one model");
  if (arguments.has("collective-profile"))
    throw UsageError(
        "collectives are measured on one machine: predict with --collective-profile there, and compare the "
        "reports");
  const Sides sides = read_sides(arguments);
  const std::string &first = arguments.words().front(), &second = arguments.words().back();
  std::deque<Question> asked;  // pairs point into it
  std::vector<ReportPair> pairs;
  for (const std::string& model : models) {
    Progress progress(arguments);
    Question& a = asked.emplace_back(read_question(arguments, model, first, sides.a));
    Question& b = asked.emplace_back(read_question(arguments, model, second, sides.b));
    share_anchor(a, b);
    const int64_t all = std::min(a.system.accelerator_count(), b.system.accelerator_count());
    if (!arguments.has("devices")) a.devices = {std::min<int64_t>(all, kMostDevices)};
    for (const int64_t n : a.devices) {
      progress.show(fmt::format("{} on {} device{} ...", model, n, n == 1 ? "" : "s"));
      pairs.push_back({answer(a, n), answer(b, n), &a, &b});
    }
  }
  const auto& [x, y, asked_x, asked_y] = pairs.front();
  const bool any =
      std::any_of(pairs.begin(), pairs.end(), [](const ReportPair& p) { return p.a.fits || p.b.fits; });
  if (!any) check_fits(*asked_x, {x});
  const auto boards = board_answers(arguments, pairs);
  const bool alone = arguments.words().size() == 1;
  const std::string head = fmt::format("A  {}: {}\n", report_title(x), asked_x->system.summary()) +
                           (alone ? fmt::format("B  the same {}\n", sides.changes)
                                  : fmt::format("B  {}: {}{}\n", report_title(y), asked_y->system.summary(),
                                                sides.changes.empty() ? "" : ", " + sides.changes));
  const std::string system = report_input(y, "system");
  const Names names = {report_input(x, "system"),
                       sides.changes.empty() ? system : fmt::format("{} {}", system, sides.changes)};
  put_comparison(arguments, pairs, names, head, board_text(pairs, boards), boards);
  return 0;
}

int compare(const Arguments& arguments) {
  if (arguments.has("model")) return compare_systems(arguments);
  for (const Flag& flag : question_flags()) {
    if (arguments.has(flag.name))
      throw UsageError(fmt::format("--{} is for systems: name a model with --model", flag.name));
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

std::vector<Flag> compare_flags() {
  std::vector<Flag> flags;
  for (Flag flag : question_flags()) {
    if (flag.name == "system") continue;
    if (flag.name == "anchor")
      flag.help = "a rate in samples/s measured on N devices of A; B has the same cards";
    if (flag.name == "model") {
      flag.value = "NAME|FILE[,...]";
      flag.repeatable = true;
      flag.help = "compare the systems A and B for this model, or for several";
    }
    if (flag.name == "devices") flag.help = "device counts; default as many as both systems have, at most 64";
    flags.push_back(flag);
    if (flag.name == "set") flags.push_back({"set-b", "PATH=VALUE", "the same of B only", true});
  }
  flags.insert(flags.end(), {format_flag(), out_flag(), quiet_flag()});
  return flags;
}

}  // namespace

void register_compare(Registry<Verb>& registry) {
  registry.add(
      {.name = "compare",
       .summary = "what changes and why: two systems for a model, or two reports (predicted, "
                  "executed, before, after)",
       .usage = "SYSTEM [SYSTEM] --model NAME [options] | REPORT REPORT [options]",
       .flags = compare_flags(),
       .least_words = 1,
       .most_words = 2,
       .run = compare,
       .details =
           "One system is compared with itself changed: without a kind of link, with NVLink bridges, other "
           "cards, other slots (--set-b links.pcie.width=x8) or other devices of the board. Then follow "
           "the batch up to which that is worth 3 %, and which devices to use. --place holds for both "
           "sides unless it is the only change.\n\n"
           "Reports come from: tandem predict or tandem run, with --format json --out FILE. Where "
           "both keep a timeline, ops and lanes are compared too, and the largest disagreement is "
           "named.\n\nExamples\n"
           "  tandem compare v100-pcie-8x dgx1-v100 --model vgg16,resnet50 --scheme pytorch-ddp\n"
           "  tandem compare a100-pcie-4x --with-bridges 0-1,2-3 --model vgg16,resnet50 --precision fp16\n"
           "  tandem compare 2080ti-nvlink-8x --without nvlink --model vgg16 --devices 4,8\n"
           "  tandem compare 2080ti-nvlink-8x --place 2,3 --model vgg16\n"
           "  tandem compare dgx-h100 dgx-h100 --set nodes=4 --set-b network.bandwidth=200Gbit/s "
           "--model vgg16"});
}

}  // namespace tandem::app
