#include <fmt/format.h>

#include <filesystem>

#include "app/output.h"
#include "app/pictures.h"
#include "app/verb.h"

namespace tandem {

namespace {

int plot(const Arguments& arguments) {
  std::vector<Report> reports;
  for (const std::string& file : arguments.words()) {
    for (Report& r : load_reports(file)) reports.push_back(std::move(r));
  }
  const auto series = series_of(reports);
  if (series.size() > 8)
    throw InputError(fmt::format("{} series are too many for one picture; at most 8", series.size()));
  const std::string folder = arguments.text("out", ".");
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw InputError(fmt::format("{}: cannot make the folder: {}", printable(folder), error.message()));
  std::vector<std::string> names, written;
  for (const PictureKind& kind : picture_kinds()) names.emplace_back(kind.name);
  const std::string wanted = arguments.has("kind") ? arguments.choice("kind", "", names) : "";
  const std::string stem = std::filesystem::path(arguments.words()[0]).stem().string();
  for (const PictureKind& kind : picture_kinds()) {
    if (!wanted.empty() && wanted != kind.name) continue;
    const auto files =
        kind.draw(series, (std::filesystem::path(folder) / fmt::format("{}-{}", stem, kind.name)).string());
    written.insert(written.end(), files.begin(), files.end());
  }
  if (written.empty()) {
    throw InputError(
        fmt::format("the reports hold nothing to draw{}", wanted.empty() ? "" : " for " + wanted));
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
       .summary = "draw reports: scaling curve, time breakdown, staleness, timeline (PNG and SVG)",
       .usage = "REPORT... [options]",
       .flags = {{"kind", "KIND", "only scaling, breakdown, staleness or timeline; default: all that apply"},
                 {"out", "DIR", "folder for the pictures; default: the current one"},
                 quiet_flag()},
       .least_words = 1,
       .most_words = 64,
       .run = plot,
       .details =
           "Prints the files it wrote. Reports come from: tandem predict ... --format json --out FILE"});
}

}  // namespace tandem
