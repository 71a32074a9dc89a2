// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>

#include "app/console/cli.h"
#include "app/console/output.h"
#include "pictures/documents.h"

namespace tandem::app {

namespace {

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

int plot(const Arguments& arguments) {
  const std::string kind = picture_kind_asked(arguments);
  std::vector<Json> documents;
  for (const std::string& file : arguments.words()) documents.push_back(Json::load(file));
  const std::filesystem::path folder = output_folder(arguments);
  const std::string& first = arguments.words()[0];
  const std::string stem = first == "-" ? "stdin" : std::filesystem::path(first).stem().string();
  const auto name = [&](std::string_view of) { return (folder / fmt::format("{}-{}", stem, of)).string(); };
  const Pictures pictures = pictures_of(documents, {kind, arguments.text("system", ""), name,
                                                    [&](std::string_view text) { note(arguments, text); }});
  std::string out;
  for (const std::string& file : write_pictures(pictures)) out += file + "\n";
  write_stdout(out);
  return 0;
}

std::vector<Option> plot_flags() {
  std::vector<Option> flags = picture_options();
  flags.push_back({"out", "DIR", "folder for the pictures; default: the current one"});
  flags.push_back(quiet_flag());
  return flags;
}

}  // namespace

void register_plot(Registry<Verb>& registry) {
  registry.add(
      {.name = "plot",
       .summary =
           "draw reports (scaling, breakdown, staleness, timeline), comparisons, plans and cross-checks "
           "(scatter) as PNG and SVG",
       .usage = "FILE... [options]   (- reads standard input)",
       .flags = plot_flags(),
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
