// SPDX-License-Identifier: Apache-2.0
#include "topologies/devices/device_paths.h"

#include <filesystem>

namespace tandem::topologies {

namespace {

namespace fs = std::filesystem;

void change_in(Json& spec, const std::function<std::string(const std::string&)>& change) {
  const Json* devices = spec.is_object() ? spec.find("devices") : nullptr;
  if (devices == nullptr || !devices->is_object()) return;
  Json out = *devices;
  bool changed = false;
  for (const auto& [name, device] : devices->members()) {
    const Json* model = device.is_object() ? device.find("model") : nullptr;
    if (model == nullptr || !model->is_text() || !is_device_path(model->as_text())) continue;
    Json moved = device;
    moved.set("model", Json::make_text(change(model->as_text()), model->place()));
    out.set(name, std::move(moved));
    changed = true;
  }
  if (changed) spec.set("devices", std::move(out));
}

}  // namespace

bool is_device_path(const std::string& model) {
  return model.find('/') != std::string::npos || model.ends_with(".json");
}

std::string moved_path(const std::string& path, const std::string& from, const std::string* to) {
  const fs::path there = fs::absolute(fs::path(from) / path).lexically_normal();
  if (to == nullptr) return there.string();
  const std::string out =
      there.lexically_proximate(fs::absolute(fs::path(*to) / "x").lexically_normal().parent_path()).string();
  return is_device_path(out) ? out : "./" + out;
}

void change_device_paths(Json& document, const std::function<std::string(const std::string&)>& change) {
  change_in(document, change);
  const Json* kinds = document.is_object() ? document.find("node_kinds") : nullptr;
  if (kinds == nullptr || !kinds->is_object()) return;
  Json out = *kinds;
  for (const auto& [name, kind] : kinds->members()) {
    Json changed = kind;
    change_in(changed, change);
    out.set(name, std::move(changed));
  }
  document.set("node_kinds", std::move(out));
}

void anchor_devices(Json& document, const std::string& file) {
  const std::string folder = fs::path(file).parent_path().string();
  if (folder.empty()) return;
  change_device_paths(document, [&](const std::string& path) { return (fs::path(folder) / path).string(); });
}

}  // namespace tandem::topologies
