// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `tandem plot` and tandem.plot draw of documents that other verbs wrote.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "answers/values.h"
#include "base/json.h"
#include "pictures/gnuplot.h"

namespace tandem::pictures {

/// --kind and --system.
std::vector<Option> picture_options();

struct PictureRequest {
  std::string kind;    ///< one of the kinds of picture_options(); empty: all that apply
  std::string system;  ///< of the map of links, where the reports are not of a stock system
  /// The name of a picture of this kind, which is that of its files.
  std::function<std::string(std::string_view kind)> name;
  std::function<void(std::string_view)> note;  ///< told why there is no map of the links
};

/// The kind that is asked for by --kind, or "". Throws UsageError with the nearest.
std::string picture_kind_asked(const Values& values);

/// The pictures of reports, comparisons, plans and cross-checks, those of several reports side by side.
/// Throws InputError where a document lacks something, or there is nothing to draw.
Pictures pictures_of(const std::vector<Json>& documents, const PictureRequest& request);

}  // namespace tandem::pictures
