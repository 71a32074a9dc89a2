// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <functional>

#include "app/console/cli.h"
#include "app/console/output.h"
#include "app/pictures/check_picture.h"
#include "app/pictures/comparison_picture.h"
#include "app/pictures/link_map.h"
#include "app/pictures/pictures.h"
#include "app/pictures/plan_picture.h"

namespace tandem::app {

namespace {

constexpr std::string_view kScatter = "scatter";
constexpr std::string_view kComparison = "comparison";
constexpr std::string_view kLinks = "links";
constexpr std::string_view kPlan = "plan";

std::string output_folder(const Arguments& arguments) {
  std::string folder = arguments.text("out", ".");
  std::error_code error;
  const std::string ending = std::filesystem::path(folder).extension().string();
  if ((ending == ".png" || ending == ".svg") && !std::filesystem::is_directory(folder, error))
    refuse_option("out",
                  fmt::format("names the folder for the pictures, which are named after the report and "
                              "drawn as .png and .svg; \"{}\" looks like a picture",
                              printable(folder)));
  std::filesystem::create_directories(folder, error);
  if (error)
    throw InputError(fmt::format("{}: cannot make the folder: {}", printable(folder), error.message()));
  return folder;
}

/// `base(kind)`: the file name of a picture of that kind.
using Base = std::function<std::string(std::string_view kind)>;

std::vector<std::string> draw_reports(const std::vector<Report>& reports, const std::string& wanted,
                                      const Base& base) {
  const auto series = series_of(reports);
  if (series.empty()) throw InputError("none of the reports is of a model that fits: nothing to draw");
  if (series.size() > 8)
    throw InputError(fmt::format("{} series are too many for one picture; at most 8", series.size()));
  std::vector<std::string> written;
  for (const PictureKind& kind : picture_kinds()) {
    if (!wanted.empty() && wanted != kind.name) continue;
    const auto files = kind.draw(series, base(kind.name));
    written.insert(written.end(), files.begin(), files.end());
  }
  return written;
}

/// One picture per report on the most devices of its series.
void draw_links(const std::vector<Report>& reports, const std::string& system, const std::string& base,
                std::vector<std::string>& written) {
  const auto series = series_of(reports);
  for (std::size_t i = 0; i < series.size(); ++i) {
    const Report& r = series[i].reports.back();
    const auto files =
        draw_link_map(r, system_of(r, system), i == 0 ? base : fmt::format("{}-{}", base, i + 1));
    written.insert(written.end(), files.begin(), files.end());
  }
}

/// Unless asked for, reports without links (of real runs) are skipped, and an unknown machine is a note.
void draw_links_if_known(const Arguments& arguments, std::vector<Report> reports, const std::string& base,
                         std::vector<std::string>& written) {
  std::erase_if(reports, [](const Report& r) { return r.network.links.empty(); });
  try {
    draw_links(reports, arguments.text("system", ""), base, written);
  } catch (const InputError& e) {
    note(arguments, fmt::format("no map of the links: {}", e.what()));
  }
}

using Draw = std::vector<std::string> (*)(const Json& document, const std::string& base);

/// The documents with a picture each, numbered from the second on.
void draw_each(const std::vector<Json>& documents, Draw draw, const std::string& base,
               std::vector<std::string>& written) {
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const auto files = draw(documents[i], i == 0 ? base : fmt::format("{}-{}", base, i + 1));
    written.insert(written.end(), files.begin(), files.end());
  }
}

int plot(const Arguments& arguments) {
  std::vector<std::string> kinds{std::string(kScatter), std::string(kComparison), std::string(kLinks),
                                 std::string(kPlan)};
  for (const PictureKind& kind : picture_kinds()) kinds.emplace_back(kind.name);
  const std::string wanted = arguments.has("kind") ? arguments.choice("kind", "", kinds) : "";
  std::vector<Report> reports;
  std::vector<Json> checks, comparisons, plans;
  for (const std::string& file : arguments.words()) {
    Json document = Json::load(file);
    if (is_check(document)) {
      checks.push_back(std::move(document));
    } else if (is_comparison(document)) {
      comparisons.push_back(std::move(document));
    } else if (is_plan(document)) {
      plans.push_back(std::move(document));
    } else {
      for (Report& r : reports_from_json(document)) reports.push_back(std::move(r));
    }
  }
  const std::filesystem::path folder = output_folder(arguments);
  const std::string& first = arguments.words()[0];
  const std::string stem = first == "-" ? "stdin" : std::filesystem::path(first).stem().string();
  const Base base = [&](std::string_view kind) {
    return (folder / fmt::format("{}-{}", stem, kind)).string();
  };
  std::vector<std::string> written;
  if (wanted == kLinks) {
    draw_links(reports, arguments.text("system", ""), base(kLinks), written);
  } else if (!reports.empty()) {
    written = draw_reports(reports, wanted, base);
    if (wanted.empty()) draw_links_if_known(arguments, reports, base(kLinks), written);
  }
  const auto asked = [&](std::string_view kind) { return wanted.empty() || wanted == kind; };
  if (asked(kScatter)) draw_each(checks, draw_check, base(kScatter), written);
  if (asked(kComparison)) draw_each(comparisons, draw_comparison, base(kComparison), written);
  if (asked(kPlan)) draw_each(plans, draw_plan, base(kPlan), written);
  if (written.empty()) {
    throw InputError(fmt::format("the files hold nothing to draw{}", wanted.empty() ? "" : " for " + wanted));
  }
  std::string out;
  for (const std::string& file : written) out += file + "\n";
  write_stdout(out);
  return 0;
}

}  // namespace

void register_plot(Registry<Verb>& registry) {
  registry.add(
      {.name = "plot",
       .summary =
           "draw reports (scaling, breakdown, staleness, timeline), comparisons, plans and cross-checks "
           "(scatter) as PNG and SVG",
       .usage = "FILE... [options]   (- reads standard input)",
       .flags =
           {{"kind", "KIND",
             "only scaling, breakdown, staleness, timeline, comparison, scatter, plan or links (how busy "
             "each link of the machine was); default: all that apply"},
            {"system", "NAME|FILE", "links: the machine of the reports, where it is not a stock system"},
            {"out", "DIR", "folder for the pictures; default: the current one"},
            quiet_flag()},
       .least_words = 1,
       .most_words = 64,
       .run = plot,
       .details =
           "Prints the files it wrote, which are named after the first of those given. Reports come "
           "from: tandem predict or run, with --format json "
           "--out FILE; a "
           "predicted and an executed one together are drawn side by side. Comparisons come from: tandem "
           "compare, plans from: tandem plan, cross-checks from: tandem check, all with --format json."});
}

}  // namespace tandem::app
