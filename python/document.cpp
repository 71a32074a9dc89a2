// SPDX-License-Identifier: Apache-2.0
#include "python/document.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <span>

#include "base/units.h"

namespace tandem::python {

namespace nb = nanobind;

namespace {

/// A column of the table in a notebook: its head, and where its figure is in a row.
struct Shown {
  const char *head, *path;
};

constexpr Shown kReports[] = {{"model", "inputs.model"},
                              {"system", "inputs.system"},
                              {"scheme", "inputs.scheme"},
                              {"devices", "devices"},
                              {"samples/s", "samples_per_second"},
                              {"low", "samples_per_second_interval.low"},
                              {"high", "samples_per_second_interval.high"},
                              {"speed-up", "speedup"},
                              {"efficiency", "scaling_efficiency"},
                              {"memory, bytes", "memory_bytes_per_device.total"},
                              {"fits", "fits"},
                              {"bound by", "bottleneck.resource"}};
constexpr Shown kPairs[] = {{"devices", "a.devices"},
                            {"A", "a.title"},
                            {"A samples/s", "a.samples_per_second"},
                            {"B", "b.title"},
                            {"B samples/s", "b.samples_per_second"},
                            {"B over A", "samples_per_second_ratio"},
                            {"low", "samples_per_second_ratio_interval.low"},
                            {"high", "samples_per_second_ratio_interval.high"},
                            {"why", "why"}};
constexpr Shown kTraced[] = {
    {"of a step", "what"}, {"predicted, s", "predicted_seconds"}, {"traced, s", "traced_seconds"}};
constexpr Shown kSides[] = {{"side", "side"},          {"title", "title"},
                            {"devices", "devices"},    {"samples/s", "samples_per_second"},
                            {"over A", "over_a"},      {"memory, bytes", "memory_bytes_per_device"},
                            {"bound by", "bottleneck"}};
constexpr Shown kChoices[] = {{"", "rank"},
                              {"scheme", "scheme"},
                              {"devices", "devices"},
                              {"batch", "batch_per_device"},
                              {"micro-batches", "micro_batches"},
                              {"precision", "precision"},
                              {"recompute", "recompute"},
                              {"samples/s", "samples_per_second"},
                              {"memory, bytes", "memory_bytes_per_device.total"},
                              {"bound by", "bottleneck"}};
constexpr Shown kCandidates[] = {{"system", "system"},
                                 {"nodes", "nodes"},
                                 {"scheme", "scheme"},
                                 {"samples/s", "samples_per_second"},
                                 {"done, s", "finish_seconds.value"},
                                 {"low", "finish_seconds.low"},
                                 {"high", "finish_seconds.high"},
                                 {"USD", "cost.value"},
                                 {"joules", "energy_joules.value"},
                                 {"keeps to the limits", "meets"}};
constexpr Shown kSizes[] = {{"bytes", "bytes"},
                            {"seconds", "seconds"},
                            {"algbw, B/s", "algbw_bytes_per_second"},
                            {"busbw, B/s", "busbw_bytes_per_second"},
                            {"algorithm", "algorithm"},
                            {"protocol", "protocol"},
                            {"measured, s", "measured_seconds"}};

constexpr Shown kCells[] = {{"model", "model"},
                            {"system", "system"},
                            {"scheme", "scheme"},
                            {"devices", "devices"},
                            {"batch", "batch"},
                            {"precision", "precision"},
                            {"status", "status"},
                            {"samples/s", "samples_per_second"},
                            {"low", "samples_per_second_low"},
                            {"high", "samples_per_second_high"},
                            {"memory, bytes", "memory_bytes"}};

/// Where a kind of document has its rows, and what a table shows of them.
struct Kind {
  std::string_view schema;
  const char* rows;
  std::span<const Shown> shown;
};

constexpr Kind kKinds[] = {{"tandem-reports-2", "reports", kReports},
                           {"tandem-compare-1", "rows", kPairs},
                           {"tandem-compare-several-1", "rows", kSides},
                           {"tandem-advice-1", "choices", kChoices},
                           {"tandem-plan-1", "candidates", kCandidates},
                           {"tandem-collective-1", "rows", kSizes},
                           {"tandem-collectives-1", "runs", {}},
                           {"tandem-trace-comparison-1", "rows", kTraced},
                           {"tandem-sweep-1", "rows", kCells}};

const Kind* kind_of(std::string_view schema) {
  const auto* found =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return k.schema == schema; });
  return found == std::end(kKinds) ? nullptr : found;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '&'   ? "&amp;"
           : c == '<' ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '"' ? "&quot;"
                      : std::string(1, c);
  }
  return out;
}

/// The value at "a.b" as text; "" where there is none.
std::string cell_at(const Json& row, std::string_view path) {
  const Json* at = &row;
  while (at != nullptr && !path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    at = at->is_object() ? at->find(std::string(path.substr(0, dot))) : nullptr;
    path.remove_prefix(std::min(path.size(), dot + 1));
  }
  if (at == nullptr) return "";
  switch (at->kind()) {
    case Json::Kind::text:
      return at->as_text();
    case Json::Kind::boolean:
      return at->as_bool() ? "yes" : "no";
    case Json::Kind::integer:
      return whole(at->as_int());
    case Json::Kind::real:
      return at->as_real() < 1000 ? fmt::format("{:.4g}", at->as_real()) : grouped(at->as_real());
    default:
      return "";
  }
}

std::string table_of(const Json& rows, std::span<const Shown> shown) {
  std::vector<std::vector<std::string>> cells;
  for (const Json& row : rows.items()) {
    cells.emplace_back();
    for (const Shown& column : shown) cells.back().push_back(cell_at(row, column.path));
  }
  std::string out = "<table><thead><tr>";
  const auto empty = [&](std::size_t i) {
    return std::all_of(cells.begin(), cells.end(), [&](const auto& row) { return row[i].empty(); });
  };
  for (std::size_t i = 0; i < shown.size(); ++i)
    out += empty(i) ? "" : "<th>" + escaped(shown[i].head) + "</th>";
  out += "</tr></thead><tbody>";
  for (const auto& row : cells) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) out += empty(i) ? "" : "<td>" + escaped(row[i]) + "</td>";
    out += "</tr>";
  }
  return out + "</tbody></table>";
}

}  // namespace

const std::string& Document::text() {
  if (!text_) {
    std::string text = write_();
    if (text.empty() || text.back() != '\n') text += '\n';
    text_ = std::move(text);
    write_ = nullptr;
  }
  return *text_;
}

nb::dict Document::parsed() {
  if (!parsed_) parsed_ = nb::cast<nb::dict>(nb::module_::import_("json").attr("loads")(text()));
  return *parsed_;
}

nb::object Document::rows() {
  const Kind* kind = kind_of(nb::cast<std::string>(parsed()["schema"]));
  return kind == nullptr ? nb::object(nb::list()) : nb::object(parsed()[kind->rows]);
}

std::string Document::html() {
  const Json document = Json::parse(text(), "report");
  const std::string schema = document.text("schema", "");
  const Kind* kind = kind_of(schema);
  if (kind == nullptr) return "<pre>" + escaped(schema) + "</pre>";
  if (!kind->shown.empty()) return table_of(document.at(kind->rows), kind->shown);
  std::string out;
  for (const Json& run : document.at(kind->rows).items())
    out += fmt::format("<p>{} of {}</p>{}", escaped(run.text("kind", "")), cell_at(run, "devices"),
                       table_of(run.at("rows"), kSizes));
  return out;
}

void bind_document(nb::module_& module) {
  nb::class_<Document>(module, "Report", nb::sig("class Report(collections.abc.Mapping[str, typing.Any])"),
                       "What is answered: a mapping, the JSON document that the command line prints "
                       "(docs/formats). Units are in the names of its members.")
      .def(
          "json", [](Document& d) { return d.text(); },
          "The bytes that the command line prints with --format json.")
      .def_prop_ro("rows", &Document::rows, "Its list of reports, rows, choices or candidates, as dicts.",
                   nb::for_getter(nb::sig("def rows(self) -> list[dict[str, typing.Any]]")))
      .def_prop_ro(
          "notes", [](const Document& d) { return d.notes(); }, "What the command line notes on stderr.")
      .def(
          "to_frame",
          [](Document& d) { return nb::module_::import_("pandas").attr("json_normalize")(d.rows()); },
          "Its rows as pandas.DataFrame; members of members have a \".\" in their name.",
          nb::sig("def to_frame(self) -> typing.Any"))
      .def("_repr_html_", &Document::html)
      .def("__repr__",
           [](Document& d) {
             return fmt::format("<tandem.Report {}>", nb::cast<std::string>(d.parsed()["schema"]));
           })
      .def(
          "__getitem__",
          [](Document& d, const std::string& key) { return nb::object(d.parsed()[key.c_str()]); },
          nb::sig("def __getitem__(self, key: str) -> typing.Any"))
      .def("__len__", [](Document& d) { return nb::len(d.parsed()); })
      .def(
          "__iter__", [](Document& d) { return nb::iter(d.parsed()); },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[str]"))
      .def("__contains__", [](Document& d, nb::handle key) { return d.parsed().contains(key); })
      .def("keys", [](Document& d) { return d.parsed().attr("keys")(); })
      .def("values", [](Document& d) { return d.parsed().attr("values")(); })
      .def("items", [](Document& d) { return d.parsed().attr("items")(); })
      .def(
          "get",
          [](Document& d, const std::string& key, nb::object fallback) {
            return d.parsed().attr("get")(key, fallback);
          },
          nb::arg("key"), nb::arg("default") = nb::none())
      .def("__getstate__", [](Document& d) { return d.text(); })
      .def("__setstate__",
           [](Document& d, const std::string& text) { new (&d) Document([text] { return text; }, {}); });
  nb::module_::import_("collections.abc").attr("Mapping").attr("register")(nb::type<Document>());
}

}  // namespace tandem::python
