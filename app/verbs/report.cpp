// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>

#include "app/console/cli.h"
#include "app/console/output.h"
#include "app/console/version.h"
#include "app/page/page.h"
#include "app/page/sweep_document.h"

namespace tandem::app {

namespace {

const std::string& report_details() {
  static const std::string text = fmt::format(
      "The page needs no network and no other file: mail it, put it on a server, print it. It shows what {} "
      "write, with --format json or the file of a sweep. Reports of predict and run are put side by side, "
      "other documents one below "
      "the other. docs/page.md says what is where.\n\nExamples\n"
      "  tandem predict --model resnet50 --system dgx1-v100 --format json --out r.json\n"
      "  tandem report r.json --out page.html",
      page_verbs());
  return text;
}

int run_report(const Arguments& arguments) {
  const bool piped = arguments.text("out", "-") == "-";
  if (!piped) check_out(arguments);
  if (!piped) check_out_apart(arguments, arguments.words());
  std::vector<PageDocument> documents;
  for (const std::string& file : arguments.words()) {
    Json document = is_database(file) ? sweep_document(file) : Json::load(file);
    check_page_document(document);
    documents.push_back({file == "-" ? "standard input" : std::filesystem::path(file).filename().string(),
                         std::move(document)});
  }
  const std::string page = page_html(documents, version());
  if (piped) {
    write_stdout(page);
  } else {
    put_result(arguments, page);
  }
  return 0;
}

}  // namespace

void register_report(Registry<Verb>& registry) {
  registry.add(
      {.name = "report",
       .summary = "one page to look at, send and print: HTML of a plan, a prediction, a comparison ...",
       .usage = "FILE... --out page.html   (- reads standard input)",
       .flags = {{"out", "FILE", "the page; default, and -: standard output"}, quiet_flag()},
       .least_words = 1,
       .most_words = 64,
       .run = run_report,
       .details = report_details()});
}

}  // namespace tandem::app
