// SPDX-License-Identifier: Apache-2.0
#pragma once
// What decoding takes where no machine was measured.
#include "schemes/setup/job.h"

namespace tandem::sim {

/// Of one sample, cropping and resizing included, on a core of speed 1 (a 2.3 GHz Broadwell core):
/// Loading::decode_seconds where that is said, else what the model's file says, or of a data set that is
/// known 4.2 ms for each 110 KB of JPEG or PNG, which are the figures of ImageNet in models/zoo.
double decode_seconds(const Job& job);

/// The same on the device, in batches: 2.92 Gpixel/s, which is nvJPEG's rate on an A100 for a thousand images
/// of 551 x 676 at once, 7,830 a second (pytorch/vision#8495). Other devices are taken to be as fast. A
/// sample of 110 KB has 500 x 375 pixels, as the mean image of ImageNet does (recalled); others are in
/// proportion. Training does not slow down meanwhile: an A100 decodes in separate units.
double device_decode_seconds(const Job& job);

}  // namespace tandem::sim
