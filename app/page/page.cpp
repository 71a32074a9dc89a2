// SPDX-License-Identifier: Apache-2.0
#include "app/page/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "answers/question.h"
#include "answers/shell_line.h"
#include "base/data.h"
#include "base/json_writer.h"
#include "base/text.h"
#include "schemes/report/report.h"

namespace tandem::app {

namespace {

constexpr std::string_view kReports = "tandem-reports-2";

/// `lists`: members that hold objects, without which there is nothing to show.
struct View {
  std::string_view schema, verb;
  std::vector<std::string_view> lists;
};

const std::vector<View>& views() {
  static const std::vector<View> all = {{kReports, "predict", {"reports"}},
                                        {kReports, "run", {"reports"}},
                                        {"tandem-plan-1", "plan", {"candidates"}},
                                        {"tandem-advice-1", "advise", {"choices", "schemes"}},
                                        {"tandem-compare-1", "compare", {"rows"}},
                                        {"tandem-sweep-1", "sweep", {"rows"}},
                                        {"tandem-check-1", "check", {"cases"}},
                                        {"tandem-validation-1", "validate", {"rows"}},
                                        {"tandem-race-1", "race", {"entries", "orders"}},
                                        {"tandem-collective-1", "collective", {"rows"}},
                                        {"tandem-collectives-1", "collective", {"runs"}}};
  return all;
}

/// In this order they are one script.
constexpr std::array kScripts = {"text",    "table", "charts",   "timeline", "links",
                                 "reports", "plans", "evidence", "page"};

std::string page_file(const std::string& name) {
  return read_file(fmt::format("{}/page/{}", data_root(), name));
}

/// JSON within <script>: no tag can begin in it. "<" occurs in texts and keys alone.
std::string script_json(const JsonWriter& document) {
  std::string out;
  for (const char c : document.dump()) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

/// The template with "{{name}}" replaced; what is put in is not looked at again.
std::string filled(const std::string& text, const std::vector<std::pair<std::string, std::string>>& values) {
  std::string out;
  std::size_t at = 0;
  while (true) {
    const std::size_t open = text.find("{{", at), close = text.find("}}", open);
    if (open == std::string::npos || close == std::string::npos) break;
    const std::string name = text.substr(open + 2, close - open - 2);
    const auto value =
        std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == name; });
    if (value == values.end()) throw InputError(fmt::format("page/page.html: nothing is called {}", name));
    out += text.substr(at, open - at) + value->second;
    at = close + 2;
  }
  return out + text.substr(at);
}

/// The command that gives each report of a document; null where a report does not hold its question.
JsonWriter commands_of(const Json& document) {
  auto out = JsonWriter::array();
  for (const Json& report : document.at("reports").items()) {
    const Json* question = report.find("question");
    std::string line;
    if (question != nullptr && question->is_object()) line = predict_line(values_of(*question));
    out.push_back(line.empty() ? JsonWriter{} : JsonWriter(line));
  }
  return out;
}

}  // namespace

std::string page_verbs() {
  std::vector<std::string_view> verbs;
  for (const View& view : views()) {
    if (std::find(verbs.begin(), verbs.end(), view.verb) == verbs.end()) verbs.push_back(view.verb);
  }
  return fmt::format("{}", fmt::join(verbs, ", "));
}

void check_page_document(const Json& document) {
  const auto no_view = [&](const std::string& has) {
    document.fail(fmt::format("a page shows what {} write; this has {}", page_verbs(), has));
  };
  if (!document.is_object()) no_view("no \"schema\"");
  const Json* schema = document.find("schema");
  if (schema == nullptr) no_view("no \"schema\"");
  const std::string& name = schema->as_text();
  if (name.starts_with("tandem-report")) {
    reports_from_json(document);  // reads all of it
    return;
  }
  const auto view =
      std::find_if(views().begin(), views().end(), [&](const View& v) { return v.schema == name; });
  if (view == views().end()) {
    std::vector<std::string> known;
    for (const View& v : views()) known.emplace_back(v.schema);
    no_view(fmt::format("the schema \"{}\".{}", printable(name), did_you_mean(name, known)));
  }
  for (const std::string_view list : view->lists) {
    for (const Json& item : document.at(list).items()) item.members();
  }
}

namespace {

std::string page_of(const std::string& title, const JsonWriter& data, const char* connect, const char* more) {
  std::string scripts;
  for (const char* name : kScripts) scripts += page_file(fmt::format("{}.js", name));
  if (*more != '\0') scripts += page_file(more);
  scripts += page_file("start.js");
  return filled(page_file("page.html"), {{"connect", connect},
                                         {"title", escaped(title)},
                                         {"style", page_file("page.css")},
                                         {"documents", script_json(data)},
                                         {"scripts", scripts}});
}

}  // namespace

std::string page_html(const std::vector<PageDocument>& documents, const std::string& version) {
  JsonWriter all = {{"version", version}, {"documents", JsonWriter::array()}};
  std::vector<std::string> names;
  for (const PageDocument& d : documents) {
    JsonWriter entry = {{"file", d.name}};
    if (d.document.at("schema").as_text() == kReports) entry["commands"] = commands_of(d.document);
    entry["document"] = JsonWriter(d.document);
    all["documents"].push_back(std::move(entry));
    names.push_back(d.name);
  }
  return page_of(fmt::format("{} · Tandem", fmt::join(names, ", ")), all, "'none'", "");
}

std::string live_page_html(const std::string& version) {
  return page_of("Tandem", {{"version", version}, {"live", true}}, "'self'", "live.js");
}

}  // namespace tandem::app
