// SPDX-License-Identifier: Apache-2.0
#pragma once
// How samples come from storage to a device: what is stored, who decodes it, and how far ahead.
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/rooms.h"

namespace tandem::schemes {

/// How a picture is stored.
enum class ImageFormat : uint8_t { jpeg, png };
inline constexpr int kImageFormats = 2;
std::string_view name(ImageFormat format);

/// A data set as it lies in storage: means over its samples.
struct StoredData {
  int64_t samples = 0;
  double bytes = 0;   ///< of a sample, encoded
  double pixels = 0;  ///< that decoding a sample makes, before it is cropped and resized
  ImageFormat format = ImageFormat::jpeg;
  bool files = true;  ///< a file for each sample; else one record file holds all
  double total() const { return static_cast<double>(samples) * bytes; }
  bool operator==(const StoredData&) const = default;
};

/// The three stages of input (semantics.md 2.2): read, decode, copy.
struct Loading {
  /// Batches of a device that are on the host at once, from the beginning of their read to the end of their
  /// copy. 0: one, which is not begun before the device has computed the iteration before.
  int64_t prefetch = 4;
  /// Threads of a device that read, and as many that decode; 0: an even share of its host's cores.
  int64_t workers = 0;
  bool decoded = false;      ///< samples lie decoded in the host's memory: nothing is read or decoded
  bool on_device = false;    ///< the device decodes: what is copied to it is encoded
  bool first_epoch = false;  ///< nothing is in the page cache yet
  bool staged = false;       ///< copied to the nodes' own disks before training
  /// Of a sample on a core of speed 1, where the loader is known to take that; 0: what is known of the data.
  double decode_seconds = 0;
  std::optional<StoredData> data = {};  ///< absent: what the model's file says of a sample
  bool operator==(const Loading&) const = default;
};

}  // namespace tandem::schemes
