// SPDX-License-Identifier: Apache-2.0
#include "topologies/import/xml.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tandem::topologies {

namespace {

constexpr int kMostDepth = 64, kMostElements = 200'000;

struct Census : pugi::xml_tree_walker {
  int elements = 0;
  pugi::xml_node too_deep;
  bool for_each(pugi::xml_node& node) override {
    if (depth() > kMostDepth) too_deep = node;
    return ++elements <= kMostElements && too_deep.empty();
  }
};

}  // namespace

XmlText::XmlText(std::string_view text, const std::string& file, std::string_view root)
    : file_(std::make_shared<const std::string>(printable(file))) {
  lines_.push_back(0);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') lines_.push_back(static_cast<std::ptrdiff_t>(i) + 1);
  }
  // Opening tags bound the memory of the tree before it is built.
  if (std::count(text.begin(), text.end(), '<') > std::ptrdiff_t{2} * kMostElements)
    throw InputError(Place{file_, 0, 0}, fmt::format("more than {} elements", kMostElements));
  const auto parsed =
      document_.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!parsed) {
    const bool early = parsed.status == pugi::status_end_element_mismatch &&
                       static_cast<std::size_t>(parsed.offset) + 1 >= text.size();
    throw InputError(at(parsed.offset), early || parsed.offset + 1 >= static_cast<std::ptrdiff_t>(text.size())
                                            ? "cut short: the file ends inside an element"
                                            : fmt::format("damaged XML: {}", parsed.description()));
  }
  Census census;
  document_.traverse(census);
  if (!census.too_deep.empty()) fail(census.too_deep, fmt::format("nested deeper than {}", kMostDepth));
  if (census.elements > kMostElements)
    throw InputError(Place{file_, 0, 0}, fmt::format("more than {} elements", kMostElements));
  root_ = document_.document_element();
  if (root_.name() != root)
    fail(root_, fmt::format("the root element is <{}>, not <{}>", printable(root_.name()), root));
}

Place XmlText::at(std::ptrdiff_t offset) const {
  const auto line = std::upper_bound(lines_.begin(), lines_.end(), offset) - lines_.begin();
  return {file_, static_cast<int>(line),
          static_cast<int>(offset - lines_[static_cast<std::size_t>(line) - 1]) + 1};
}

Place XmlText::place(const pugi::xml_node& node) const {
  return node.empty() ? Place{file_, 0, 0} : at(std::max<std::ptrdiff_t>(0, node.offset_debug()));
}

void XmlText::fail(const pugi::xml_node& node, const std::string& why) const {
  throw InputError(place(node), why);
}

std::string XmlText::text(const pugi::xml_node& node, const char* name) const {
  return printable(node.attribute(name).value());
}

int64_t XmlText::integer(const pugi::xml_node& node, const char* name, int64_t fallback, int64_t low,
                         int64_t high) const {
  const std::string_view value = node.attribute(name).value();
  if (value.empty()) return fallback;
  int64_t out = 0;
  const auto read = std::from_chars(value.data(), value.data() + value.size(), out);
  if (read.ec != std::errc{} || read.ptr != value.data() + value.size() || out < low || out > high) {
    fail(node, fmt::format("{}=\"{}\" of <{}> is no whole number from {} to {}", name, printable(value),
                           printable(node.name()), low, high));
  }
  return out;
}

double XmlText::real(const pugi::xml_node& node, const char* name, double fallback, double low,
                     double high) const {
  const std::string_view value = node.attribute(name).value();
  if (value.empty()) return fallback;
  double out = 0;
  const auto read = std::from_chars(value.data(), value.data() + value.size(), out);
  if (read.ec != std::errc{} || read.ptr != value.data() + value.size() || !(out >= low && out <= high)) {
    fail(node, fmt::format("{}=\"{}\" of <{}> is no number from {} to {}", name, printable(value),
                           printable(node.name()), low, high));
  }
  return out;
}

}  // namespace tandem::topologies
