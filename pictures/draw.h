// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pictures by way of Graphviz and gnuplot.
#include <string>
#include <string_view>

#include "base/rooms.h"

namespace tandem::pictures {

/// "png", "svg" or "" by the end of a file's name.
std::string picture_kind(std::string_view path);

/// The name from which pictures get theirs: without ".png" or ".svg", `file` in it where it is a folder.
/// Throws InputError where its folder does not exist.
std::string picture_base(const std::string& path, std::string_view file);

/// Draws Graphviz dot text to a .png or .svg file. Throws InputError when the path has another ending or
/// cannot be written, or when Graphviz is absent or fails.
void draw_dot(const std::string& dot, const std::string& path);

/// Graphviz's layout of dot text in its line format "plain". Throws InputError when Graphviz is absent or
/// fails.
std::string draw_dot_plain(const std::string& dot);

}  // namespace tandem::pictures
