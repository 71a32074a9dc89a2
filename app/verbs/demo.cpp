// SPDX-License-Identifier: Apache-2.0
// The tour: two models on eight V100 cards, joined by PCIe and by NVLink; then a small one predicted and run
// for real on this machine.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "answers/answer.h"
#include "answers/question.h"
#include "app/console/cli.h"
#include "app/console/output.h"
#include "app/console/report_text.h"
#include "app/console/terminal.h"
#include "app/measure/cross_check.h"
#include "base/json.h"
#include "pictures/pictures.h"
#include "pictures/system_drawing.h"

namespace tandem::app {

namespace {

constexpr const char* kModels[] = {"resnet50", "vgg16"};
constexpr const char* kSystems[] = {"v100-pcie-8x", "dgx1-v100"};
constexpr const char* kScheme = "pytorch-ddp";

Question question(const std::string& model, const std::string& system) {
  return Question::of({{"model", model},
                       {"system", system},
                       {"scheme", kScheme},
                       {"devices", "1,2,4,8"},
                       {"precision", "fp16"}});
}

/// Share of a step that several devices lose without waiting for communication.
double slowed(const Report& r) {
  return std::max(0.0, 1 - r.scaling.efficiency - r.time.share.exposed_communication);
}

/// One model on both systems: table, what it means, reports and pictures in `folder`.
std::string chapter(const std::string& model, const std::filesystem::path& folder, int columns,
                    std::vector<std::string>& files) {
  std::vector<Report> all, last;
  std::string out;
  for (const char* system : kSystems) {
    const Question q = question(model, system);
    const auto reports = predict(q);
    out += fmt::format("{} ({} parameters) on {}\n{}\n", model,
                       count_text(static_cast<double>(q.graph.parameter_elements())), system,
                       report_table(reports).text(true, columns));
    files.push_back((folder / fmt::format("{}-{}.json", model, system)).string());
    write_file(files.back(), reports_to_json(reports, true));
    all.insert(all.end(), reports.begin(), reports.end());
    last.push_back(reports.back());
  }
  out += fmt::format(
      "Eight cards are {:.2f} times one over PCIe and {:.2f} times one over NVLink; NVLink makes them "
      "{:.2f} times as fast. Of a step over PCIe {:.0f} % goes to waiting for communication and {:.0f} % to "
      "overheads that a single card does not have (kernels slowed by collectives, the framework's work); "
      "over "
      "NVLink {:.0f} % and {:.0f} %.\n\n",
      last[0].scaling.speedup, last[1].scaling.speedup,
      last[1].rate.samples_per_second / last[0].rate.samples_per_second,
      100 * last[0].time.share.exposed_communication, 100 * slowed(last[0]),
      100 * last[1].time.share.exposed_communication, 100 * slowed(last[1]));
  const auto series = series_of(all);
  for (const PictureKind& kind : picture_kinds()) {
    const std::string base = (folder / fmt::format("{}-{}", model, kind.name)).string();
    for (std::string& file : write_pictures(kind.draw(series, base))) {
      files.push_back(std::move(file));
    }
  }
  return out;
}

/// Measures this machine, predicts LeNet-5 for it and then runs it.
std::string proof(const std::filesystem::path& folder, int columns, std::vector<std::string>& files,
                  Progress& progress) {
  const Backend& backend = backends_registry().at("cpu");
  const std::vector<CheckCase> cases = {{"lenet5", 64, 1, "allreduce", 150},
                                        {"lenet5", 64, 2, "allreduce", 150},
                                        {"lenet5", 64, 2, "parameter-server:mode=async,overlap=off", 300}};
  std::vector<std::vector<Report>> executed(cases.size());
  const auto run_repetition = [&](int64_t) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (cases[i].devices <= std::max(1U, std::thread::hardware_concurrency()))
        executed[i].push_back(execute_case(cases[i], backend, nullptr).report);
    }
    return true;
  };
  const Measurements measured = measure_repeatedly(
      backend, {.repetitions = usual_repetitions(backend, true)},
      [&](const std::string& what, double share) { progress.show(what, share); }, nullptr, run_repetition);
  files.push_back((folder / "this-machine.json").string());
  write_file(files.back(), fit_machine(measured).profile);
  const std::string profile = files.back();
  Table table({{"LeNet-5 here", false},
               {"samples/s predicted", true},
               {"executed", true},
               {"error", true},
               {"repeats within", true}});
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const CheckCase& c = cases[i];
    const std::vector<Report>& runs = executed[i];
    if (runs.empty()) continue;
    const CheckRow row = compare_case(c, predict_case(c, profile, runs.size()), runs).front();
    table.add({fmt::format("{} worker{}, {}", c.devices, c.devices == 1 ? "" : "s", c.scheme),
               grouped(row.predicted), grouped(row.executed), fmt::format("{:+.1f} %", 100 * row.error),
               row.repeated ? fmt::format("{:.1f} %", 100 * row.floor) : "-"});
  }
  const std::string busy = busy_while(measured.load);
  return fmt::format(
      "And is it true? {} was measured on other models, LeNet-5 predicted from that, and run for real "
      "(tandem check does this thoroughly):\n\n{}{}\n",
      backend.describe(), table.text(true, columns),
      busy.empty() ? "" : fmt::format("These errors mean little: {}.\n", busy));
}

int demo(const Arguments& arguments) {
  const std::filesystem::path folder = arguments.text("out", "tandem-demo");
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw InputError(
        fmt::format("{}: cannot make the folder: {}", printable(folder.string()), error.message()));
  if (const std::string busy = busy_before(load_now()); !busy.empty()) note(arguments, busy);
  std::string out =
      "Eight V100 cards, twice: behind PCIe switches (v100-pcie-8x) and on NVLink (dgx1-v100). What does a "
      "training step cost on each? Data parallel with PyTorch DDP, mixed precision, 32 images per card; "
      "simulated from datasheets and published kernel timings.\n\n";
  const int terminal = columns_of(STDOUT_FILENO), columns = terminal == 0 ? 100 : terminal;
  std::vector<std::string> files;
  Progress progress(arguments);
  for (const char* model : kModels) {
    progress.show(fmt::format("predicting and drawing {} ...", model));
    out += chapter(model, folder, columns, files);
  }
  for (const char* system : kSystems) {
    progress.show(fmt::format("drawing {} ...", system));
    files.push_back((folder / fmt::format("{}.svg", system)).string());
    write_file(files.back(), draw_system(System::load(system)).drawn("svg"));
  }
  out += proof(folder, columns, files, progress);
  progress.show("");
  out += fmt::format("Reports (JSON) and pictures (PNG, SVG) are in {}/:\n", folder.string());
  for (const std::string& file : files) {
    const std::string png = file.substr(0, file.rfind('.')) + ".png";
    const bool twin = file.ends_with(".svg") && std::find(files.begin(), files.end(), png) != files.end();
    if (!twin) out += "  " + std::filesystem::path(file).filename().string() + "\n";
  }
  out += "Next: tandem predict --help, or the same question about your own machine: tandem list systems\n";
  write_stdout(wrapped(out, columns));
  return 0;
}

}  // namespace

void register_demo(Registry<Verb>& registry) {
  registry.add(
      {.name = "demo",
       .summary =
           "the tour: ResNet-50 and VGG-16 on eight V100, PCIe against NVLink; then a real cross-check here",
       .usage = "[options]",
       .flags = {{"out", "DIR", "folder for reports and pictures; default tandem-demo"}, quiet_flag()},
       .run = demo});
}

}  // namespace tandem::app
