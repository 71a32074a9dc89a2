// SPDX-License-Identifier: Apache-2.0
#pragma once
// What this machine takes to read and to decode pictures.
#include <string>

#include "calibration/fit/machine_fit.h"
#include "exec/data/stored_images.h"

namespace tandem::app {

/// Pictures made in their own folder below the system's temporary one, which goes when this does.
/// For one thread.
class TemporaryImages {
 public:
  /// Throws InputError where nothing can be written there.
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
/// colour and in grey; files and records read from the page cache. One thread, as the executor does it; of
/// several passes the median.
void measure_input(bool quick, Measurements& m);

}  // namespace tandem::app
