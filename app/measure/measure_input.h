// SPDX-License-Identifier: Apache-2.0
#pragma once
// The time this machine takes to read and decode images.
#include <string>

#include "calibration/fit/machine_fit.h"
#include "exec/data/stored_images.h"

namespace tandem::app {

/// Images in their own temporary folder, which is removed with this object. For one thread.
class TemporaryImages {
 public:
  /// Throws InputError if the folder cannot be written.
  TemporaryImages(const MadeImages& what, bool files);
  ~TemporaryImages();
  TemporaryImages(const TemporaryImages&) = delete;
  TemporaryImages& operator=(const TemporaryImages&) = delete;
  const StoredImages& images() const { return images_; }

 private:
  std::string folder_;
  StoredImages images_;
};

/// Appends to `m.input`: JPEG (of two qualities) and PNG of four sizes, decoded to inputs of two sizes in
/// colour and grey; files and records read from the page cache. On one thread, as the executor does it; the
/// median of several passes.
void measure_input(bool quick, Measurements& m);

}  // namespace tandem::app
