// SPDX-License-Identifier: Apache-2.0
#include "pictures/draw.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/child.h"
#include "base/error.h"
#include "base/json.h"

namespace tandem::pictures {

std::string picture_kind(std::string_view path) {
  if (path.ends_with(".png")) return "png";
  if (path.ends_with(".svg")) return "svg";
  return "";
}

std::string picture_base(const std::string& path, std::string_view file) {
  std::filesystem::path named = path;
  std::error_code error;
  if (std::filesystem::is_directory(named, error)) return (named / file).string();
  if (!picture_kind(path).empty()) named.replace_extension();
  const std::filesystem::path folder = named.parent_path();
  if (path.empty() || named.filename().empty() ||
      !(folder.empty() || std::filesystem::is_directory(folder, error)))
    throw InputError(path.empty() ? "pictures need a name, such as --plot answer"
                                  : fmt::format("{}: there is no such folder for pictures", printable(path)));
  return named.string();
}

namespace {

std::string run_dot(const std::string& dot, const std::string& format) {
  const ChildResult result = run_child({"dot", "-T" + format}, dot, "graphviz");
  if (result.timed_out)
    throw InputError(
        fmt::format("dot was stopped after {} s: the graph is too large to draw", kMostSeconds.count()));
  if (result.status != 0) {
    throw InputError(
        fmt::format("dot failed: {}", printable(result.err.empty() ? "no reason given" : result.err)));
  }
  return result.out;
}

}  // namespace

void draw_dot(const std::string& dot, const std::string& path) {
  const std::string kind = picture_kind(path);
  if (kind.empty()) throw InputError(fmt::format("{}: a picture must end in .png or .svg", printable(path)));
  write_file(path, run_dot(dot, kind));
}

std::string draw_dot_plain(const std::string& dot) { return run_dot(dot, "plain"); }

}  // namespace tandem::pictures
