// SPDX-License-Identifier: Apache-2.0
#include "base/data.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>

#include "base/kept.h"
#include "base/only_names.h"

namespace tandem::base {

namespace {

namespace fs = std::filesystem;

bool has_models(const fs::path& root) {
  std::error_code none;
  return fs::exists(root / "models/zoo", none);
}

/// The folder of the program or library that this code is in.
fs::path own_folder() {
  Dl_info info;
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none);
  if (dladdr(reinterpret_cast<const void*>(&has_models), &info) == 0 || info.dli_fname == nullptr)
    return program.parent_path();
  const fs::path file = fs::canonical(info.dli_fname, none);
  return none ? program.parent_path() : file.parent_path();  // a program may be known by a relative name
}

std::string find_root() {
  const char* set = std::getenv("TANDEM_DATA");
  std::string root = TANDEM_SOURCE_DIR;
  if (set != nullptr && *set != '\0') {
    root = set;
  } else {
    for (const char* up : {"..", "../.."}) {
      const fs::path installed = own_folder() / up / "share/tandem";
      if (!has_models(installed)) continue;
      root = installed.lexically_normal().string();
      break;
    }
  }
  if (!has_models(root))
    throw DeviceError(
        fmt::format("no data in {}: set TANDEM_DATA to the folder that holds models, systems, presets and "
                    "profiles (share/tandem of an installation, or the source tree)",
                    root));
  return root;
}

std::mutex root_lock;
std::optional<std::string> root_of_process;  // never changes once it is there

}  // namespace

const std::string& data_root() {
  const std::lock_guard lock(root_lock);
  if (!root_of_process) root_of_process = find_root();
  return *root_of_process;
}

void set_data_root(const std::string& folder) {
  const std::lock_guard lock(root_lock);
  if (root_of_process && *root_of_process != folder)
    throw InputError(fmt::format("data was already read from {}: name another folder before that",
                                 printable(*root_of_process)));
  if (!has_models(folder))
    throw InputError(fmt::format("no data in {}: it has no models/zoo", printable(folder)));
  root_of_process = folder;
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
  if (path) {
    OnlyNames::check(name_or_path, place);
    return name_or_path;
  }
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

namespace {

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") out.push_back(entry.path().stem().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

std::vector<std::string> list_data(std::string_view folder) {
  static Kept<std::vector<std::string>> kept;
  return *kept.get(fmt::format("{}/{}", data_root(), folder), names_in);
}

}  // namespace tandem::base
