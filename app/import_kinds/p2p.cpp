// SPDX-License-Identifier: Apache-2.0
// Link benchmarks -> the measured figures, or, with --system or with dumps of the machine, a system file with
// measured links.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/json_writer.h"

#include "app/console/output.h"
#include "app/import_kinds/machine.h"
#include "calibration/logs/link_fit.h"
#include "sim/cost/libraries.h"
#include "topologies/devices/device_paths.h"
#include "topologies/import/hardware.h"
#include "topologies/import/importer.h"

namespace tandem::app {

namespace {

/// Devices that the measurement names differently from the system; in bus order.
void name_other_models(const LinkTests& tests, const System& system, std::vector<std::string>& notes) {
  std::string list;
  const std::size_t count = std::min(tests.devices.size(), system.accelerators().size());
  for (std::size_t i = 0; i < count; ++i) {
    bool sure = false;
    Machine::Gpu gpu;
    gpu.model = tests.devices[i];
    const std::string measured = gpu_model(gpu, Joined::cards, sure);
    const VertexId here = system.accelerator(static_cast<int64_t>(i));
    if (measured.empty() || measured == system.device(here).name) continue;
    list += fmt::format("{}{} is a {}, here {}", list.empty() ? "" : ", ", system.info(here).name, measured,
                        system.device(here).name);
  }
  if (!list.empty()) notes.push_back(fmt::format("by the measurement {}", list));
}

/// A system file, with paths relative to the current folder, and its links as measured.
std::string calibrated(const Arguments& arguments, const LinkTests& tests, const std::string& sources,
                       Json document, const std::string& name) {
  std::vector<std::string> notes;
  name_other_models(tests, System::from_json(document), notes);
  FittedLinks fitted = fit_links(tests, std::move(document), notes);
  for (const LinkFit& fit : fitted.fits) {
    const auto written = [&](double v) {
      return fit.path.starts_with("peer_access.") ? fmt::format("{:.4g}GB/s", v * 1e-9)
                                                  : fmt::format("{:.4g}", v);
    };
    note(arguments,
         fmt::format("{}: {} -> {} (median of {} figures)", fit.path,
                     fit.before > 0 ? written(fit.before) : "none", written(fit.after), fit.figures));
  }
  for (const std::string& remark : notes) note(arguments, remark);
  if (std::any_of(fitted.fits.begin(), fitted.fits.end(),
                  [](const LinkFit& f) { return f.path.starts_with("peer_access."); }))
    note(arguments,
         "what peer_access holds now is the most that one copy of the driver reaches on a path; a "
         "collective's "
         "kernels may reach less, which tandem collective --log shows");
  const auto folder = result_folder(arguments);
  change_device_paths(fitted.document, [&](const std::string& path) {
    return moved_path(path, "", folder ? &*folder : nullptr);
  });
  auto out = JsonWriter(fitted.document);
  out["name"] = name;
  if (fitted.document.find("sources") == nullptr) out["sources"] = JsonWriter::array();
  out["sources"].push_back("links measured: " + sources);
  return out.dump_wrapped();
}

/// The models that link tests name, if the dumps name none; in bus order.
void take_models(Machine& machine, const LinkTests& tests) {
  if (tests.devices.size() != machine.gpus.size()) return;
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    Machine::Gpu& gpu = machine.gpus[i];
    if (gpu.model.empty() && gpu.pci_id.empty()) gpu.model = printable(tests.devices[i]);
  }
}

std::string described(const Arguments& arguments, std::vector<Machine> machines, const LinkTests* tests,
                      std::vector<std::string>& notes) {
  ImportChoices choices{
      .name = arguments.text("name", std::filesystem::path(arguments.text("out", "")).stem().string()),
      .device = arguments.text("device", ""),
      .cpu = arguments.text("cpu", ""),
      .library = arguments.text("library", ""),
      .folder = result_folder(arguments),
      .nic = {}};
  if (arguments.has("nic")) choices.nic = arguments.value("nic", "", parse_bandwidth);
  Machine machine = merge(std::move(machines));
  if (tests != nullptr) take_models(machine, *tests);
  std::vector<std::string> own = machine.notes;
  std::string text = system_text(machine, choices, own);
  notes.insert(notes.end(), own.begin(), own.end());
  return text;
}

/// A system's text with paths relative to the current folder, checked: it can be read back, and --library is
/// known.
Json read_back(const Arguments& arguments, const std::string& text) {
  Json document = Json::parse(text, "the system as imported");
  const std::string folder = result_folder(arguments).value_or("");
  anchor_devices(document, folder.empty() ? "" : folder + "/file");
  library_of(System::from_json(document));
  return document;
}

}  // namespace

std::optional<std::string> result_folder(const Arguments& arguments) {
  if (!arguments.has("out")) return std::nullopt;
  return std::filesystem::path(arguments.text("out", "")).parent_path().string();
}

int import_machine(const Arguments& arguments, const std::vector<ImportFile>& files) {
  std::vector<Machine> machines;
  for (const SystemImporter& importer : import_registry().all()) {  // the most detailed first
    for (const ImportFile& file : files) {
      if (file.kind == importer.name) machines.push_back(importer.read(file.text, file.name));
    }
  }
  LinkTests tests;
  std::string sources;
  std::vector<std::string> notes;
  for (const ImportFile& file : files) {
    if (file.kind != "p2p") continue;
    if (merge(tests, read_link_tests(file.text, file.name)))
      notes.push_back(fmt::format("{} contradicts the measurement of {}: {} is used", printable(file.name),
                                  sources, sources));
    sources += (sources.empty() ? "" : ", ") + printable(file.name);
  }
  const bool dumps = !machines.empty(), named = arguments.has("system");
  if (dumps && named)
    throw UsageError("--system names the machine, and so do the other files: give one of them");
  if (!sources.empty() && (dumps || named)) order_by_bus(tests, notes);
  std::string text;
  Json document;
  if (dumps) {
    text = described(arguments, std::move(machines), sources.empty() ? nullptr : &tests, notes);
    document = read_back(arguments, text);
  } else if (named) {
    document = System::document(arguments.text("system", ""), {}, option_place("system"));
  } else {
    text = link_tests_json(tests);
  }
  for (const std::string& remark : notes) note(arguments, remark);
  if (!sources.empty() && (dumps || named))
    text = calibrated(arguments, tests, sources, document,
                      dumps ? document.at("name").as_text()
                            : arguments.text("name", document.text("name", "") + "-measured"));
  put_result(arguments, text);
  return 0;
}

void register_p2p(Registry<ImportKind>& registry) {
  registry.add(
      {"p2p",
       "p2pBandwidthLatencyTest, bandwidthTest, nvbandwidth: measured links; with --system or "
       "together with a dump of the "
       "machine, its file set to them",
       looks_like_link_tests,
       import_machine,
       {{"system", "NAME|FILE",
         "write this system's file with its links as measured; of a training: where it runs"},
        {"name", "TEXT", "what to call the system (default: as the file of --out, else imported)"}}});
}

}  // namespace tandem::app
