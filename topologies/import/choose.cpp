// SPDX-License-Identifier: Apache-2.0
#include "topologies/import/choose.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <set>

#include "base/text.h"
#include "topologies/devices/device_paths.h"
#include "topologies/import/hardware.h"

namespace tandem::topologies {

namespace {

/// How a GPU is joined to others.
Joined joined_by(const Machine& machine, int gpu) {
  Joined joined = Joined::cards;
  for (const Machine::Cable& cable : machine.cables) {
    const bool mine = cable.a == gpu || (cable.to == Machine::Cable::To::gpu && cable.b == gpu);
    if (mine) joined = cable.to == Machine::Cable::To::nvswitch ? Joined::fabric : Joined::cables;
  }
  return joined;
}

}  // namespace

std::string Chosen::model() const { return path.empty() ? device.name : path; }

namespace {

/// What --device or --cpu names, for the file that is written.
Chosen chosen_device(const std::string& name, const std::string& option, const ImportChoices& choices) {
  Place place;
  place.file = std::make_shared<const std::string>(option);
  return {Device::load(name, place),
          is_device_path(name) ? moved_path(name, "", choices.folder ? &*choices.folder : nullptr) : ""};
}

/// The models that --device names, one for each GPU.
std::vector<Chosen> named_gpus(const Machine& machine, const ImportChoices& choices) {
  const auto names = split(choices.device, ',');
  const std::size_t gpus = machine.gpus.size();
  if (names.size() != 1 && names.size() != gpus)
    throw InputError(
        fmt::format("--device names {} models, {} shows {} GPUs: one is for all of them, else one for "
                    "each, in their order: --device rtx-4090,rtx-5090",
                    names.size(), machine.source, gpus));
  std::map<std::string, Chosen> loaded;
  std::vector<Chosen> out;
  for (std::size_t i = 0; i < gpus; ++i) {
    const std::string& name = names.size() == 1 ? names[0] : names[i];
    auto at = loaded.find(name);
    if (at == loaded.end()) at = loaded.emplace(name, chosen_device(name, "--device", choices)).first;
    if (at->second.device.kind == Device::Kind::cpu)
      throw InputError(
          fmt::format("--device: {} is a CPU; the model of the GPUs is wanted", at->second.device.name));
    out.push_back(at->second);
  }
  return out;
}

}  // namespace

std::vector<Chosen> choose_gpus(const Machine& machine, const ImportChoices& choices,
                                std::vector<std::string>& notes) {
  std::vector<Chosen> out;
  if (!choices.device.empty()) out = named_gpus(machine, choices);
  if (!out.empty() && !machine.cables.empty() && !has_cables(out[0].device))
    notes.push_back(
        fmt::format("the dump shows NVLink or xGMI, which a {} does not have", out[0].device.name));
  std::map<std::string, Device> loaded;
  const auto device = [&](const std::string& name) -> const Device& {
    const auto at = loaded.find(name);
    return at != loaded.end() ? at->second : loaded.emplace(name, Device::load(name)).first->second;
  };
  std::set<std::string> guessed;
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    const Machine::Gpu& gpu = machine.gpus[i];
    if (!choices.device.empty()) break;
    bool sure = false;
    const std::string model = gpu_model(gpu, joined_by(machine, static_cast<int>(i)), sure);
    if (model.empty()) {
      const std::string known =
          !gpu.model.empty()    ? fmt::format(" (it calls GPU {} \"{}\")", gpu.number, gpu.model)
          : !gpu.pci_id.empty() ? fmt::format(" (GPU {} is PCI device {})", gpu.number, gpu.pci_id)
                                : "";
      throw InputError(
          fmt::format("{}: does not say which GPUs these are{}; give their model with --device, for example "
                      "--device a100-sxm-80gb, or one for each, separated by commas. All: tandem list "
                      "devices; one that is "
                      "not among them is a file of ten lines (docs/own-device.md)",
                      machine.file, known));
    }
    if (!sure && guessed.insert(model).second) {
      notes.push_back(fmt::format(
          "GPU {} is taken for a {} ({}); --device NAME says otherwise", gpu.number, model,
          gpu.gcn.empty() ? fmt::format("compute capability {}", gpu.sm) : fmt::format("gcn {}", gpu.gcn)));
    }
    out.push_back({device(model), ""});
  }
  if (out.size() > 1 && !machine.knows_cables) {
    notes.push_back(
        fmt::format("{} says nothing of NVLink or xGMI; if the GPUs have any, import it together with the "
                    "matrix of nvidia-smi topo -m",
                    machine.source));
  }
  return out;
}

std::vector<Chosen> choose_cpus(const Machine& machine, const ImportChoices& choices,
                                std::vector<std::string>& notes) {
  std::vector<Chosen> out;
  std::set<std::string> said;
  for (const Machine::Cpu& cpu : machine.cpus) {
    bool sure = true;
    std::string model = choices.cpu;
    if (model.empty()) model = cpu_model(cpu, sure);
    if (model.empty()) model = "generic-cpu";
    if (!sure && said.insert(model).second) {
      notes.push_back(
          model == "generic-cpu"
              ? "the CPU model is not in the dump: generic-cpu is taken; --cpu NAME says otherwise"
              : fmt::format("the CPUs are taken for {} by their generation; --cpu NAME says otherwise",
                            model));
    }
    out.push_back(choices.cpu.empty() ? Chosen{Device::load(model), ""}
                                      : chosen_device(model, "--cpu", choices));
    if (out.back().device.kind != Device::Kind::cpu)
      throw InputError(
          fmt::format("{}{} is no CPU", choices.cpu.empty() ? "" : "--cpu: ", out.back().device.name));
  }
  return out;
}

}  // namespace tandem::topologies
