// SPDX-License-Identifier: Apache-2.0
#include "app/pictures/draw.h"

#include <fmt/format.h>

#include "app/console/child.h"
#include "base/error.h"
#include "base/json.h"

namespace tandem::app {

std::string picture_kind(std::string_view path) {
  if (path.ends_with(".png")) return "png";
  if (path.ends_with(".svg")) return "svg";
  return "";
}

void draw_dot(const std::string& dot, const std::string& path) {
  const std::string kind = picture_kind(path);
  if (kind.empty()) throw InputError(fmt::format("{}: a picture must end in .png or .svg", printable(path)));
  const ChildResult result = run_child({"dot", "-T" + kind}, dot, "graphviz");
  if (result.timed_out) throw InputError("dot was stopped after 60 s: the graph is too large to draw");
  if (result.status != 0) {
    throw InputError(
        fmt::format("dot failed: {}", printable(result.err.empty() ? "no reason given" : result.err)));
  }
  write_file(path, result.out);
}

}  // namespace tandem::app
