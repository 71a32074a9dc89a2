// SPDX-License-Identifier: Apache-2.0
#include "plan/offers.h"

#include "tests/fuzz/target.h"

namespace tandem::tests::fuzz {

/// A file of offers: whatever is accepted has a price and can be described.
void offers(std::string_view bytes) {
  const plan::Date today{2026, 11, 29};
  try {
    for (const plan::Offer& offer : plan::offers_from_json(Json::parse(bytes, "fuzz"), today)) {
      const plan::Cost cost = plan::cost_of(offer, 2, 16, 3600, 1e9, {});
      TANDEM_CHECK(cost.total().low >= 0 && cost.total().low <= cost.total().high);
      plan::describe(offer, today);
    }
  } catch (const InputError&) {
  }
}

}  // namespace tandem::tests::fuzz
TANDEM_FUZZ_TARGET(offers)
