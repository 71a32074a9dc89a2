// SPDX-License-Identifier: Apache-2.0
// Verbs that are part of the command line's contract and not of this version: they say so, with exit code 2.
#include <fmt/format.h>

#include "app/console/cli.h"

namespace tandem::app {

namespace {

template <const char* Name>
int later(const Arguments&) {
  throw UsageError(fmt::format("{} is not in this version. What is: tandem help", Name));
}

constexpr char kSweep[] = "sweep";

template <const char* Name>
void add(Registry<Verb>& registry, std::string_view summary) {
  registry.add({.name = Name,
                .summary = summary,
                .usage = "(not in this version)",
                .flags = {},
                .run = later<Name>,
                .unchecked = true});
}

}  // namespace

void register_later(Registry<Verb>& registry) {
  add<kSweep>(registry, "a grid of predictions (not in this version)");
}

}  // namespace tandem::app
