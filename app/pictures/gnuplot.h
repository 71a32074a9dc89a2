// SPDX-License-Identifier: Apache-2.0
#pragma once
// One picture: a template of plots/, its variables and its data, drawn by a gnuplot child process.
#include <string>
#include <string_view>
#include <vector>

#include "base/rooms.h"

namespace tandem::app {

/// Text reaches gnuplot only as single-quoted strings and as tab-separated data, so nothing in a name can
/// be taken for a command.
class Gnuplot {
 public:
  /// `name`: plots/<name>.gp under the data root.
  explicit Gnuplot(std::string name) : name_(std::move(name)) {}
  void set(std::string_view variable, std::string_view text);
  void set(std::string_view variable, double number);
  /// A data block `$name`; rows of cells. Two empty rows start the next index.
  void data(std::string_view name, const std::vector<std::vector<std::string>>& rows);
  /// Writes <base>.png and <base>.svg (1200 x 750) and returns both names. Throws InputError when gnuplot is
  /// absent, slower than a minute, or fails (with its reason), or a file cannot be written.
  std::vector<std::string> draw(const std::string& base) const;

 private:
  std::string name_;
  std::string head_;
};

/// A number as gnuplot reads it.
std::string cell(double value);

}  // namespace tandem::app
