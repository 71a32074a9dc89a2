// SPDX-License-Identifier: Apache-2.0
#include "pictures/documents.h"

#include <fmt/format.h>

#include "pictures/check_picture.h"
#include "pictures/comparison_picture.h"
#include "pictures/link_map.h"
#include "pictures/pictures.h"
#include "pictures/plan_picture.h"

namespace tandem::pictures {

namespace {

constexpr std::string_view kScatter = "scatter", kComparison = "comparison", kLinks = "links", kPlan = "plan";
constexpr std::size_t kMostTogether = 8;

void add(Pictures& all, Pictures more) {
  for (Picture& picture : more) all.push_back(std::move(picture));
}

Pictures report_pictures(const std::vector<Report>& reports, const PictureRequest& request) {
  const auto series = series_of(reports);
  if (series.empty()) throw InputError("none of the reports is of a model that fits: nothing to draw");
  if (series.size() > kMostTogether)
    throw InputError(
        fmt::format("{} series are too many for one picture; at most {}", series.size(), kMostTogether));
  Pictures out;
  for (const PictureKind& kind : picture_kinds()) {
    if (request.kind.empty() || request.kind == kind.name)
      add(out, kind.draw(series, request.name(kind.name)));
  }
  return out;
}

/// The i-th of a kind; numbered from the second on.
std::string numbered(const std::string& name, std::size_t i) {
  return i == 0 ? name : fmt::format("{}-{}", name, i + 1);
}

/// One picture per report on the most devices of its series.
Pictures link_maps(const std::vector<Report>& reports, const PictureRequest& request) {
  Pictures out;
  const auto series = series_of(reports);
  for (std::size_t i = 0; i < series.size(); ++i) {
    const Report& r = series[i].reports.back();
    add(out, draw_link_map(r, system_of(r, request.system), numbered(request.name(kLinks), i)));
  }
  return out;
}

/// Unless asked for, reports without links (of real runs) are skipped, and an unknown machine is a note.
void add_link_maps_if_known(Pictures& all, std::vector<Report> reports, const PictureRequest& request) {
  std::erase_if(reports, [](const Report& r) { return r.network.links.empty(); });
  try {
    add(all, link_maps(reports, request));
  } catch (const std::runtime_error& e) {  // Graphviz, too, may be absent
    request.note(fmt::format("no map of the links: {}", e.what()));
  }
}

/// The documents by what they hold.
struct Sorted {
  std::vector<Report> reports;
  std::vector<Json> checks, comparisons, plans;
};

Sorted sorted(const std::vector<Json>& documents) {
  Sorted out;
  for (const Json& document : documents) {
    if (is_check(document)) {
      out.checks.push_back(document);
    } else if (is_comparison(document)) {
      out.comparisons.push_back(document);
    } else if (is_plan(document)) {
      out.plans.push_back(document);
    } else {
      for (Report& r : reports_from_json(document)) out.reports.push_back(std::move(r));
    }
  }
  return out;
}

}  // namespace

std::vector<Option> picture_options() {
  return {{"kind", "KIND",
           "only scaling, breakdown, staleness, timeline, comparison, scatter, plan or links (how busy "
           "each link of the machine was); default: all that apply"},
          {"system", "NAME|FILE", "links: the machine of the reports, where it is not a stock system"}};
}

std::string picture_kind_asked(const Values& values) {
  std::vector<std::string> kinds{std::string(kScatter), std::string(kComparison), std::string(kLinks),
                                 std::string(kPlan)};
  for (const PictureKind& kind : picture_kinds()) kinds.emplace_back(kind.name);
  return values.has("kind") ? values.choice("kind", "", kinds) : "";
}

Pictures pictures_of(const std::vector<Json>& documents, const PictureRequest& request) {
  const Sorted of = sorted(documents);
  Pictures out;
  if (request.kind == kLinks) {
    out = link_maps(of.reports, request);
  } else if (!of.reports.empty()) {
    out = report_pictures(of.reports, request);
    if (request.kind.empty()) add_link_maps_if_known(out, of.reports, request);
  }
  const auto add_each = [&](const std::vector<Json>& all, std::string_view kind,
                            Pictures (*draw)(const Json&, const std::string&)) {
    if (!request.kind.empty() && request.kind != kind) return;
    for (std::size_t i = 0; i < all.size(); ++i) add(out, draw(all[i], numbered(request.name(kind), i)));
  };
  add_each(of.checks, kScatter, draw_check);
  add_each(of.comparisons, kComparison, draw_comparison);
  add_each(of.plans, kPlan, draw_plan);
  if (out.empty())
    throw InputError(
        fmt::format("the files hold nothing to draw{}", request.kind.empty() ? "" : " for " + request.kind));
  return out;
}

}  // namespace tandem::pictures
