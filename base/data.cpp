// SPDX-License-Identifier: Apache-2.0
#include "base/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

namespace tandem::base {

namespace {

namespace fs = std::filesystem;

std::string find_root() {
  std::error_code none;
  const char* set = std::getenv("TANDEM_DATA");
  const fs::path installed = fs::read_symlink("/proc/self/exe", none).parent_path() / "../share/tandem";
  std::string root = TANDEM_SOURCE_DIR;
  if (set != nullptr && *set != '\0') {
    root = set;
  } else if (fs::exists(installed / "models", none)) {
    root = installed.lexically_normal().string();
  }
  if (!fs::exists(fs::path(root) / "models/zoo", none))
    throw DeviceError(
        fmt::format("no data in {}: set TANDEM_DATA to the folder that holds models, systems, presets and "
                    "profiles (share/tandem of an installation, or the source tree)",
                    root));
  return root;
}

}  // namespace

const std::string& data_root() {
  static const std::string root = find_root();
  return root;
}

std::string spelled_as(const std::string& name, const std::vector<std::string>& names) {
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  for (const std::string& known : names) {
    if (std::equal(known.begin(), known.end(), name.begin(), name.end(), same)) return known;
  }
  return name;
}

std::string find_data(std::string_view folder, std::string_view kind, const std::string& name_or_path,
                      const Place& place) {
  const bool path = name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json");
  if (path) return name_or_path;
  const auto file = [&](const std::string& name) {
    return fmt::format("{}/{}/{}.json", data_root(), folder, name);
  };
  // As it is spelled it is mostly there: no need to read the folder.
  std::error_code none;
  if (name_or_path.find('\0') == std::string::npos && fs::exists(file(name_or_path), none))
    return file(name_or_path);
  const auto names = list_data(folder);
  const std::string name = spelled_as(name_or_path, names);
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    throw InputError(place, fmt::format("no {} \"{}\".{} All: tandem list {}s", kind, printable(name_or_path),
                                        did_you_mean(name_or_path, names), kind));
  }
  return file(name);
}

std::vector<std::string> list_data(std::string_view folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(fmt::format("{}/{}", data_root(), folder), error)) {
    if (entry.path().extension() == ".json") out.push_back(entry.path().stem().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace tandem::base
