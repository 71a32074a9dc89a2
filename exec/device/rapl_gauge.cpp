// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "exec/device/gauge.h"

namespace tandem::exec {

namespace {

namespace fs = std::filesystem;

/// Throws DeviceError.
double read_number(const fs::path& file) {
  std::ifstream in(file);
  double value = -1;
  in >> value;
  if (!in || value < 0)
    throw DeviceError(fmt::format("{} cannot be read (most systems let only root)", file.string()));
  return value;
}

/// A zone of the kernel's powercap tree (Documentation/power/powercap/powercap.rst): energy_uj grows up to
/// max_energy_range_uj and begins again with 0.
class RaplGauge : public PowerGauge {
 public:
  RaplGauge(fs::path zone, std::string name)
      : zone_(std::move(zone)),
        name_(std::move(name)),
        range_(read_number(zone_ / "max_energy_range_uj")),
        last_(read_number(zone_ / "energy_uj")) {}

  PowerReading read() override {
    const double now = read_number(zone_ / "energy_uj");
    if (now < last_) before_ += range_;
    last_ = now;
    PowerReading out;
    out.joules = 1e-6 * (before_ + now);
    return out;
  }

  std::string name() const override { return name_; }

 private:
  const fs::path zone_;
  const std::string name_;
  const double range_;  ///< microjoules, as the next two
  double last_, before_ = 0;
};

/// "package-0"; "" of a zone that is no package, as of memory or the whole platform.
std::string package_name(const fs::path& zone) {
  std::ifstream in(zone / "name");
  std::string name;
  std::getline(in, name);
  return name.starts_with("package-") ? name : "";
}

}  // namespace

PowerGauges rapl_gauges() {
  PowerGauges out;
  const char* named = std::getenv("TANDEM_POWERCAP");
  const fs::path folder = named == nullptr ? "/sys/class/powercap" : named;
  std::vector<fs::path> zones;
  std::error_code none;
  for (const auto& zone : fs::directory_iterator(folder, none)) zones.push_back(zone.path());
  std::sort(zones.begin(), zones.end());
  out.source = "RAPL";
  try {
    for (const fs::path& zone : zones) {
      // "intel-rapl:0" is a package, also of AMD's processors; "intel-rapl:0:0" a part of it
      const std::string file = zone.filename().string();
      if (!file.starts_with("intel-rapl:") || std::count(file.begin(), file.end(), ':') != 1) continue;
      if (const std::string name = package_name(zone); !name.empty())
        out.devices.push_back(std::make_unique<RaplGauge>(zone, name));
    }
    if (out.devices.empty()) out.missing = fmt::format("{} has no package of processors", folder.string());
  } catch (const DeviceError& why) {
    out.devices.clear();
    out.missing = why.what();
  }
  return out;
}

}  // namespace tandem::exec
