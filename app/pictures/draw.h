// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pictures by way of Graphviz and gnuplot.
#include <string>
#include <string_view>

#include "base/rooms.h"

namespace tandem::app {

/// "png", "svg" or "" by the end of a file's name.
std::string picture_kind(std::string_view path);

/// Draws Graphviz dot text to a .png or .svg file. Throws InputError when the path has another ending or
/// cannot be written, or when Graphviz is absent or fails.
void draw_dot(const std::string& dot, const std::string& path);

}  // namespace tandem::app
