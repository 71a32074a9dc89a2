// SPDX-License-Identifier: Apache-2.0
#pragma once
// XML of untrusted origin: parsed by pugixml without DTDs and custom entities, bounded in size and depth,
// with the line of every element for messages.
#include <cstdint>
#include <memory>
#include <pugixml.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tandem::topologies {

/// For one thread at a time.
class XmlText {
 public:
  /// Throws InputError at the line where the text is damaged or ends too early, when it holds more than
  /// 200,000 elements or nests deeper than 64, or when its root is not `root`.
  XmlText(std::string_view text, const std::string& file, std::string_view root);
  pugi::xml_node root() const { return root_; }
  Place place(const pugi::xml_node& node) const;

  // Attributes. `fallback` when absent or empty; InputError when present and no number in [low, high].
  std::string text(const pugi::xml_node& node, const char* name) const;
  int64_t integer(const pugi::xml_node& node, const char* name, int64_t fallback, int64_t low,
                  int64_t high) const;
  double real(const pugi::xml_node& node, const char* name, double fallback, double low, double high) const;
  [[noreturn]] void fail(const pugi::xml_node& node, const std::string& why) const;

 private:
  Place at(std::ptrdiff_t offset) const;
  std::shared_ptr<const std::string> file_;
  std::vector<std::ptrdiff_t> lines_;  ///< where each begins
  pugi::xml_document document_;
  pugi::xml_node root_;
};

}  // namespace tandem::topologies
