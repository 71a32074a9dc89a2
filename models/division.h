// SPDX-License-Identifier: Apache-2.0
#pragma once
// How devices divide the layers of a model among them: what Graph::slice() is made of.
#include <string>
#include <vector>

#include "base/error.h"
#include "models/description.h"
#include "models/slice.h"

namespace tandem::models {

/// Throws the error with the layer that it is about, and its place if it lacked one.
[[noreturn]] void blame(const Layer& layer, const InputError& error);

/// One of the devices that share it makes a part of the layer's features: a matrix does, and what treats each
/// element by itself hands the part on.
bool makes_part(const std::vector<Layer>& layers, uint32_t index);

/// Gives each device its part of the inputs and says which linear layers it divides, before shapes follow
/// from these. `sample`, `model`: of the whole. Throws InputError where a layer needs all of what is divided.
void divide_inputs(std::vector<Layer>& layers, const ModelSlice& sharing, const Sample& sample,
                   const std::string& model);

/// Throws InputError where `parts`, whose shapes are known, are no division of `whole`.
void check_division(const std::vector<Layer>& whole, const std::vector<Layer>& parts,
                    const ModelSlice& sharing, const std::string& model);

/// The layers of the slice, and in place of those outside what one inside reads of them, or nothing.
/// `received` becomes those that are read, the model's inputs apart.
std::vector<Layer> only(const std::vector<Layer>& layers, const ModelSlice& slice,
                        std::vector<bool>& received);

}  // namespace tandem::models
