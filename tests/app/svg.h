// SPDX-License-Identifier: Apache-2.0
#pragma once
// What tests read in a picture that gnuplot wrote as SVG.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <regex>
#include <string>
#include <vector>

#include "pictures/gnuplot.h"
#include "tests/app/tool.h"

namespace tandem::tests {

/// A rectangle in pixels, y downwards; of a text at most as wide as it can be.
struct SvgBox {
  double left = 0, right = 0, top = 0, bottom = 0;
  std::string text, fill;
  double width() const { return right - left; }
  bool laps(const SvgBox& o) const {
    return left < o.right && o.left < right && top < o.bottom && o.top < bottom;
  }
};

/// All texts that stand upright.
inline std::vector<SvgBox> svg_texts(const std::string& svg) {
  static const std::regex pattern(
      R"re(<g transform="translate\(([-0-9.]+),([-0-9.]+)\)" stroke="none" fill="([^"]*)" font-family="[^"]*" font-size="([0-9.]+)"  text-anchor="(\w+)">\s*<text[^>]*>([^<]*)</text>)re");
  std::vector<SvgBox> out;
  for (std::sregex_iterator at(svg.begin(), svg.end(), pattern), end; at != end; ++at) {
    const auto number = [&](int i) { return std::atof((*at)[i].str().c_str()); };
    const double size = number(4), width = text_width((*at)[6].str(), size * 0.75);
    const std::string anchor = (*at)[5];
    const double left = number(1) - (anchor == "middle" ? width / 2 : anchor == "end" ? width : 0);
    out.push_back({left, left + width, number(2) - 0.75 * size, number(2) + 0.2 * size, (*at)[6], (*at)[3]});
  }
  return out;
}

/// The rectangles that boxes are drawn as.
inline std::vector<SvgBox> svg_boxes(const std::string& svg) {
  static const std::regex pattern(
      R"re(<polygon fill = '([^']*)'[^>]*points = '([-0-9.]+),([-0-9.]+) ([-0-9.]+),([-0-9.]+) ([-0-9.]+),([-0-9.]+) ([-0-9.]+),([-0-9.]+))re");
  std::vector<SvgBox> out;
  for (std::sregex_iterator at(svg.begin(), svg.end(), pattern), end; at != end; ++at) {
    const auto number = [&](int i) { return std::atof((*at)[i].str().c_str()); };
    out.push_back({std::min({number(2), number(4), number(6), number(8)}),
                   std::max({number(2), number(4), number(6), number(8)}),
                   std::min({number(3), number(5), number(7), number(9)}),
                   std::max({number(3), number(5), number(7), number(9)}), "", (*at)[1]});
  }
  return out;
}

/// The picture opens in librsvg, names itself, has its heading in the middle, and no text of it covers
/// another.
inline void expect_sound(const std::string& path) {
  SCOPED_TRACE(path);
  const std::string svg = slurp(path);
  ASSERT_THAT(svg, testing::HasSubstr("<svg"));
  EXPECT_EQ(run_child({"rsvg-convert", path}, "", "librsvg2-bin", kPatience).status, 0);
  EXPECT_THAT(svg, testing::Not(testing::HasSubstr("<title>Gnuplot")));
  EXPECT_THAT(svg, testing::HasSubstr("DejaVu Sans, Verdana, sans-serif"));
  const std::vector<SvgBox> texts = svg_texts(svg);
  ASSERT_FALSE(texts.empty());
  EXPECT_TRUE(std::any_of(texts.begin(), texts.end(), [&](const SvgBox& t) {
    return std::abs((t.left + t.right) / 2 - kPictureWidth / 2) < 1 &&
           svg.find("<title>" + t.text) != std::string::npos;
  })) << "no heading in the middle";
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_GE(texts[i].left, 0) << texts[i].text;
    EXPECT_LE(texts[i].right, kPictureWidth) << texts[i].text;
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_FALSE(texts[i].laps(texts[j])) << texts[i].text << " on " << texts[j].text;
  }
}

}  // namespace tandem::tests
