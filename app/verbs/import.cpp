// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "app/console/cli.h"
#include "app/console/output.h"
#include "app/import_kind.h"
#include "base/json.h"
#include "calibration/traces/kineto.h"

namespace tandem::app {

namespace {

constexpr int64_t kLimit = 16 << 20;

/// The kinds that a text looks like.
std::vector<std::string> lookalikes(std::string_view text) {
  std::vector<std::string> out;
  for (const ImportKind& kind : import_kinds_registry().all()) {
    if (kind.recognises(text)) out.emplace_back(kind.name);
  }
  return out;
}

std::string valid_kinds() { return fmt::format("{}", fmt::join(import_kinds_registry().names(), ", ")); }

/// A file on disk that a large kind knows by what it begins with.
std::optional<ImportFile> open_large(const std::string& kind, const std::string& name) {
  if (name == "-") return {};
  std::string head = calibration::beginning_of(name);
  if (head.empty()) return {};
  for (const ImportKind& one : import_kinds_registry().all()) {
    if (one.large && (kind == one.name || (kind.empty() && one.recognises(head))))
      return ImportFile{std::string(one.name), name, std::move(head)};
  }
  return {};
}

/// `kind` empty: recognised by the text.
ImportFile open(const std::string& kind, const std::string& name) {
  if (std::optional<ImportFile> large = open_large(kind, name)) return *large;
  ImportFile file{kind, name == "-" ? "stdin" : name, read_file(name, kLimit)};
  const std::string called = printable(file.name);
  if (file.text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw InputError(fmt::format("{}: nothing in it", called));
  if (file.text.find('\0') != std::string::npos)
    throw InputError(fmt::format("{}: not a text file (it holds zero bytes)", called));
  const auto like = lookalikes(file.text);
  if (!kind.empty()) {
    if (!like.empty() && std::find(like.begin(), like.end(), kind) == like.end()) {
      throw InputError(fmt::format("{}: not {}; it looks like {}. Try: tandem import {} {}", called, kind,
                                   like[0], like[0], name == "-" ? "-" : called));
    }
    return file;
  }
  if (like.empty()) {
    throw InputError(
        fmt::format("{}: cannot tell what this is; name its kind: tandem import KIND {}. Kinds: {}", called,
                    name == "-" ? "-" : called, valid_kinds()));
  }
  file.kind = like[0];
  return file;
}

/// Kinds precede the files that they apply to: "topo-m a.txt nccl-xml b.xml"; or only files.
std::vector<ImportFile> open_all(const std::vector<std::string>& words) {
  std::vector<ImportFile> files;
  std::string kind;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (import_kinds_registry().find(words[i]) != nullptr) {
      kind = words[i];
      if (i + 1 == words.size()) {
        throw UsageError(fmt::format(
            "no file after \"{0}\". Usage: tandem import {0} FILE, or - for standard input", kind));
      }
      continue;
    }
    std::error_code none;
    const bool first_of_two = i == 0 && words.size() > 1 && words[i] != "-";
    if (first_of_two && words[i].find_first_of("./") == std::string::npos &&
        !std::filesystem::exists(words[i], none)) {
      throw UsageError(fmt::format("cannot import \"{}\".{} Kinds: {}", printable(words[i]),
                                   did_you_mean(words[i], import_kinds_registry().names()), valid_kinds()));
    }
    files.push_back(open(kind, words[i]));
  }
  return files;
}

int import_files(const Arguments& arguments) {
  check_out(arguments);
  const auto files = open_all(arguments.words());
  const ImportKind& kind = import_kinds_registry().at(files[0].kind);
  for (const ImportFile& file : files) {
    if (import_kinds_registry().at(file.kind).run == kind.run) continue;
    throw InputError(
        fmt::format("{} ({}) and {} ({}) do not describe the same kind of thing; import them one by one",
                    printable(files[0].name), files[0].kind, printable(file.name), file.kind));
  }
  return kind.run(arguments, files);
}

std::vector<Option> all_flags() {
  std::vector<Option> flags;
  for (const ImportKind& kind : import_kinds_registry().all()) {
    for (const Option& flag : kind.flags) {
      const bool known =
          std::any_of(flags.begin(), flags.end(), [&](const Option& f) { return f.name == flag.name; });
      if (!known) flags.push_back(flag);
    }
  }
  flags.push_back(out_flag());
  flags.push_back(quiet_flag());
  return flags;
}

const std::string& import_details() {
  static const std::string text = [] {
    std::string out =
        "Several sources of one machine are joined, and contradictions named.\n\nKinds (by default "
        "recognised from the content):\n";
    for (const ImportKind& kind : import_kinds_registry().all())
      out += fmt::format("  {:<12} {}\n", kind.name, kind.summary);
    return out +
           "\nExamples\n"
           "  nvidia-smi topo -m | tandem import topo-m - --device rtx-4090 --out box.json\n"
           "  tandem import nccl-xml topo.xml --out box.json && tandem predict --system box.json --model "
           "resnet50\n"
           "  tandem import topo.txt topo.xml lstopo.xml --out box.json\n"
           "  tandem import topo.txt p2p.txt --device rtx-4090,rtx-4090,rtx-a6000 --out box.json\n"
           "  tandem import hf-config config.json --out model.json";
  }();
  return text;
}

}  // namespace

void register_import(Registry<Verb>& registry) {
  registry.add({.name = "import",
                .summary = "other tools' files: what they say of a machine becomes a system file, a "
                           "config.json or a graph of ONNX a model file",
                .usage = "[KIND] FILE... [options]   (- reads standard input)",
                .flags = all_flags(),
                .least_words = 1,
                .most_words = 64,
                .next =
                    [](const std::vector<std::string>& before) {
                      return before.empty() ? import_kinds_registry().names() : std::vector<std::string>();
                    },
                .run = import_files,
                .details = import_details()});
}

}  // namespace tandem::app
