// SPDX-License-Identifier: Apache-2.0
#pragma once
// One picture: a template of plots/, its variables and its data, drawn by a gnuplot child process.
#include <string>
#include <string_view>
#include <vector>

#include "base/rooms.h"

namespace tandem::pictures {

/// Longer times are drawn in seconds.
inline constexpr double kMostMilliseconds = 10'000;
inline constexpr double kPictureWidth = 1200, kPictureHeight = 750;  ///< pixels

/// At most how many pixels wide a text is that is drawn in letters of that many points. Templates count in
/// points.
double text_width(std::string_view text, double points);
/// The largest size, at most `points`, at which text_width() is `pixels` or less.
double fitting_size(std::string_view text, double points, double pixels);

/// Text reaches gnuplot only as single-quoted strings and as tab-separated data, so nothing in a name can
/// be taken for a command.
/// For one thread at a time, but for what is const.
class Gnuplot {
 public:
  /// `name`: plots/<name>.gp under the data root.
  explicit Gnuplot(std::string name) : name_(std::move(name)) {}
  /// The centred line on top, as large as it fits, and a smaller one below it. The heading is also the title
  /// of the SVG. Every picture has one.
  void heading(std::string_view text, std::string_view below = "");
  void set(std::string_view variable, std::string_view text);
  void set(std::string_view variable, double number);
  /// A data block `$name`; rows of cells. Two empty rows start the next index.
  void data(std::string_view name, const std::vector<std::vector<std::string>>& rows);
  /// The bytes of the picture, "png" or "svg" by `kind`. Throws DeviceError when gnuplot is absent,
  /// InputError when it takes longer than kMostSeconds (base/child.h) or fails (with its reason). Any thread.
  std::string drawn(std::string_view kind) const;

 private:
  std::string name_, head_, heading_;
};

/// A picture under the name of its files, which lacks ".png" and ".svg".
struct Picture {
  std::string name;
  Gnuplot plot;
};
using Pictures = std::vector<Picture>;
/// Writes <name>.png and <name>.svg of each and returns all names. Throws as Gnuplot::drawn(), and InputError
/// where a file cannot be written.
std::vector<std::string> write_pictures(const Pictures& pictures);

/// A number as gnuplot reads it.
std::string cell(double value);

}  // namespace tandem::pictures
