// SPDX-License-Identifier: Apache-2.0
#include "topologies/import/choose.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <set>

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

std::vector<Device> choose_gpus(const Machine& machine, const ImportChoices& choices,
                                std::vector<std::string>& notes) {
  std::vector<Device> out;
  std::map<std::string, Device> loaded;
  const auto device = [&](const std::string& name, const Place& place) -> const Device& {
    const auto at = loaded.find(name);
    return at != loaded.end() ? at->second : loaded.emplace(name, Device::load(name, place)).first->second;
  };
  std::set<std::string> guessed;
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    const Machine::Gpu& gpu = machine.gpus[i];
    if (!choices.device.empty()) {
      Place place;
      place.file = std::make_shared<const std::string>("--device");
      const Device& chosen = device(choices.device, place);
      if (chosen.kind == Device::Kind::cpu)
        throw InputError(place, fmt::format("{} is a CPU; the model of the GPUs is wanted", chosen.name));
      if (i == 0 && !machine.cables.empty() && !has_cables(chosen))
        notes.push_back(fmt::format("the dump shows NVLink or xGMI, which a {} does not have", chosen.name));
      out.push_back(chosen);
      continue;
    }
    bool sure = false;
    const std::string model = gpu_model(gpu, joined_by(machine, static_cast<int>(i)), sure);
    if (model.empty()) {
      const std::string known =
          !gpu.model.empty()    ? fmt::format(" (it calls GPU {} \"{}\")", gpu.number, gpu.model)
          : !gpu.pci_id.empty() ? fmt::format(" (GPU {} is PCI device {})", gpu.number, gpu.pci_id)
                                : "";
      throw InputError(
          fmt::format("{}: does not say which GPUs these are{}; give their model with --device, for example "
                      "--device a100-sxm-80gb. All: tandem list devices",
                      machine.file, known));
    }
    if (!sure && guessed.insert(model).second) {
      notes.push_back(fmt::format(
          "GPU {} is taken for a {} ({}); --device NAME says otherwise", gpu.number, model,
          gpu.gcn.empty() ? fmt::format("compute capability {}", gpu.sm) : fmt::format("gcn {}", gpu.gcn)));
    }
    out.push_back(device(model, {}));
  }
  if (out.size() > 1 && !machine.knows_cables) {
    notes.push_back(
        fmt::format("{} says nothing of NVLink or xGMI; if the GPUs have any, import it together with the "
                    "matrix of nvidia-smi topo -m",
                    machine.source));
  }
  return out;
}

std::vector<Device> choose_cpus(const Machine& machine, const ImportChoices& choices,
                                std::vector<std::string>& notes) {
  std::vector<Device> out;
  std::set<std::string> said;
  for (const Machine::Cpu& cpu : machine.cpus) {
    bool sure = true;
    std::string model = choices.cpu;
    Place place;
    if (!model.empty()) place.file = std::make_shared<const std::string>("--cpu");
    if (model.empty()) model = cpu_model(cpu, sure);
    if (model.empty()) model = "generic-cpu";
    if (!sure && said.insert(model).second) {
      notes.push_back(
          model == "generic-cpu"
              ? "the CPU model is not in the dump: generic-cpu is taken; --cpu NAME says otherwise"
              : fmt::format("the CPUs are taken for {} by their generation; --cpu NAME says otherwise",
                            model));
    }
    out.push_back(Device::load(model, place));
    if (out.back().kind != Device::Kind::cpu)
      throw InputError(place, fmt::format("{} is no CPU", out.back().name));
  }
  return out;
}

}  // namespace tandem::topologies
