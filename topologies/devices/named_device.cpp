// SPDX-License-Identifier: Apache-2.0
#include "topologies/devices/named_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/data.h"
#include "base/text.h"

namespace tandem::topologies {

namespace {

/// The words of the device's name that the machine's description has minus those that it has not, the
/// multiprocessors, the clock.
int likeness(const Device& device, const std::string& machine) {
  const std::vector<std::string> said = lower_words(machine);
  int out = 0;
  for (const std::string& word : lower_words(device.name)) {
    const bool there =
        std::any_of(said.begin(), said.end(), [&](const std::string& s) { return s.starts_with(word); });
    out += there ? 1 : -1;
  }
  for (std::size_t i = 1; i < said.size(); ++i)
    out += said[i] == "processors" && said[i - 1] == std::to_string(device.units) ? 1 : 0;
  return out +
         (machine.find(fmt::format("{:.2f} GHz", device.boost_mhz / 1000)) != std::string::npos ? 1 : 0);
}

}  // namespace

std::string model_number(const std::string& machine) {
  std::string word;
  for (const char c : machine + ' ') {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += c;
      continue;
    }
    if (std::count_if(word.begin(), word.end(), [](unsigned char x) { return std::isdigit(x) != 0; }) >= 3)
      return word;
    word.clear();
  }
  return "";
}

std::vector<Device> devices_like(const std::string& machine, bool gpu) {
  std::vector<Device> best;
  int most = 0;
  const std::vector<std::string> model = lower_words(model_number(machine));
  if (model.size() != 1) return {};
  for (const std::string& name : list_data("topologies/devices")) {
    const std::vector<std::string> words = lower_words(name);
    if (std::find(words.begin(), words.end(), model[0]) == words.end()) continue;
    Device d = Device::load(name);
    if ((d.kind == Device::Kind::gpu) != gpu) continue;
    const int alike = likeness(d, machine);
    if (!best.empty() && alike < most) continue;
    if (alike != most) best.clear();
    most = alike;
    best.push_back(std::move(d));
  }
  return best;
}

}  // namespace tandem::topologies
