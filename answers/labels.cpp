// SPDX-License-Identifier: Apache-2.0
#include "answers/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace tandem::answers {

namespace {

/// Inputs that every engine knows, in the order of a title.
constexpr std::string_view kNamedKeys[] = {"model", "system", "scheme", "precision", "batch_per_device"};

bool in_title(std::string_view key) {
  return std::find(std::begin(kNamedKeys), std::end(kNamedKeys), key) != std::end(kNamedKeys);
}

/// "rtx-4090" of "./cards/rtx-4090.json".
std::string stem(std::string name) {
  if (name.ends_with(".json")) name.resize(name.size() - 5), name.erase(0, name.rfind('/') + 1);
  return name;
}

/// An input as a label says it.
std::string input_words(const std::string& key, const std::string& value) {
  for (const char* group : {"scheme.", "memory."}) {
    if (key.rfind(group, 0) == 0) return fmt::format("{}={}", key.substr(7), value);
  }
  constexpr std::pair<std::string_view, std::string_view> kSaid[] = {
      {"scheme", "{}"},          {"precision", "{}"},
      {"optimizer", "{}"},       {"model", "{}"},
      {"input", "{} input"},     {"recipe", "{} recipe"},
      {"profile", "{} profile"}, {"recompute", "recompute {}"},
      {"offload", "offload {}"}, {"batch_norm", "batch norm {}"}};
  for (const auto& [name, form] : kSaid) {
    if (key == name) return fmt::format(fmt::runtime(form), value);
  }
  std::string words = key;
  std::replace(words.begin(), words.end(), '_', ' ');
  return fmt::format("{} {}", words, value);
}

}  // namespace

std::string change_words(const std::string& name, const std::string& value) {
  if (name == "without") return "without " + value;
  if (name == "bridges") return "with NVLink bridges " + value;
  if (name == "device") return "with " + stem(value);
  if (name == "place") return "on devices " + value;
  return fmt::format("with {}={}", name, value);
}

std::string lack_words(const std::string& name, const std::string& value) {
  if (name == "without") return "with its " + value;
  if (name == "bridges") return "without NVLink bridges " + value;
  if (name == "device") return "with its own devices";
  if (name == "place") return "on its first devices";
  return fmt::format("without {}={}", name, value);
}

std::string changed_system(const std::string& name, const Changes& changes) {
  std::string out = name;
  for (const auto& [path, value] : changes)
    out += fmt::format("{} {}", out == name ? "" : ",", change_words(path, value));
  return out;
}

std::string report_input(const Report& report, std::string_view key) {
  for (const auto& [name, value] : report.setup.inputs) {
    if (name == key) return value;
  }
  return "";
}

std::string report_system(const Report& report) {
  const std::string label = report_input(report, "system_label");
  return label.empty() ? report_input(report, "system") : label;
}

std::string report_batch(const Report& report) {
  const bool stages = std::any_of(report.memory_by_role.begin(), report.memory_by_role.end(),
                                  [](const RoleMemory& m) { return m.role.rfind("stage ", 0) == 0; });
  const bool micro = !report_input(report, "scheme.microbatches").empty() || stages;
  const bool mean = !report_input(report, "batch_split").empty();
  return fmt::format("{} sample{} per {}{}", report.setup.batch_per_device,
                     report.setup.batch_per_device == 1 ? "" : "s", micro ? "micro-batch" : "device",
                     mean ? " on average" : "");
}

std::string report_title(const Report& report) {
  std::string out =
      fmt::format("{} on {}, {}, {}, {}", report_input(report, "model"), report_system(report),
                  report_input(report, "scheme"), report_input(report, "precision"), report_batch(report));
  for (const auto& [key, value] : report.setup.inputs) {
    if (key.rfind("memory.", 0) == 0) out += ", " + input_words(key, value);
  }
  return out;
}

std::string engine_word(const Report& report) {
  return report.evaluation.engine == "exec" ? "executed" : "predicted";
}

std::vector<std::pair<std::string, std::string>> label_parts(const Report& report) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [key, value] : report.setup.inputs) {
    if (key == "devices" || key == "system_label" || key.rfind("set.", 0) == 0) continue;
    if (key == "scheme") {  // its options follow it, wherever they are
      out.emplace_back(key, value);
      for (const auto& [option, setting] : report.setup.inputs) {
        if (option.rfind("scheme.", 0) == 0) out.emplace_back(option, input_words(option, setting));
      }
    } else if (key.rfind("scheme.", 0) != 0) {
      out.emplace_back(key, key == "system"             ? report_system(report)
                            : key == "batch_per_device" ? report_batch(report)
                                                        : input_words(key, value));
    }
  }
  return out;
}

std::vector<std::string> distinguishing_labels(const std::vector<Report>& reports) {
  const auto words = [](const Report& r, const std::string& key) {
    for (const auto& [name, text] : label_parts(r)) {
      if (name == key) return text;
    }
    return std::string();
  };
  const bool both = std::any_of(reports.begin(), reports.end(), [&](const Report& r) {
    return r.evaluation.engine != reports[0].evaluation.engine;
  });
  std::vector<std::string> out;
  for (const Report& r : reports) {
    std::string label = both ? engine_word(r) : "";
    for (const auto& [key, text] : label_parts(r)) {
      if (both && (key == "system" || key == "input")) continue;  // two names for one machine
      const bool differs =
          std::any_of(reports.begin(), reports.end(), [&, &key = key, &text = text](const Report& other) {
            if (other.evaluation.engine != r.evaluation.engine && !in_title(key)) return false;
            const bool option = key.rfind("scheme.", 0) == 0;
            if (option && report_input(other, "scheme") != report_input(r, "scheme")) return false;
            return words(other, key) != text;
          });
      if (differs) label += (label.empty() ? "" : ", ") + text;
    }
    out.push_back(std::move(label));
  }
  return out;
}

std::string title_beside(const Report& report, const Report& other) {
  std::string rest;
  const auto theirs = label_parts(other);
  for (const auto& part : label_parts(report)) {
    const bool said = in_title(part.first) || part.first.rfind("memory.", 0) == 0;
    const bool option = part.first.rfind("scheme.", 0) == 0;  // says nothing about another scheme
    if (said || report.evaluation.engine != other.evaluation.engine) continue;
    if (option && report_input(report, "scheme") != report_input(other, "scheme")) continue;
    if (std::find(theirs.begin(), theirs.end(), part) == theirs.end())
      rest += (rest.empty() ? "" : ", ") + part.second;
  }
  return rest.empty() ? report_title(report) : fmt::format("{} ({})", report_title(report), rest);
}

std::string needs_text(const Report& r) {
  const HostMemory& node = r.memory.node;
  if (r.memory.needed() <= r.memory.capacity && !node.fits())
    return fmt::format("needs {} of the host's {}", to_text(node.needed), to_text(node.capacity));
  const auto gib = [](Bytes b) { return static_cast<double>(b.n) / (1 << 30); };
  const double needs = gib(r.memory.needed()), has = gib(r.memory.capacity);
  if (needs < 1.005 * has)  // "needs 80 of 80 GiB" would puzzle
    return fmt::format("needs {} of {} MiB", grouped(1024 * needs), grouped(1024 * has));
  return fmt::format("needs {} of {:.3g} GiB", grouped(needs), has);
}

}  // namespace tandem::answers
