// SPDX-License-Identifier: Apache-2.0
#include "models/graph.h"
#include "models/import/hf/config.h"
#include "tests/fuzz/target.h"

namespace tandem::tests::fuzz {

/// A config.json of Transformers: a model of whatever is accepted.
void hf_config(std::string_view bytes) {
  try {
    const Json config = Json::parse(bytes, "fuzz");
    if (!models::is_hf_config(config)) return;
    Graph::from_json(models::model_of_hf_config(config)).forward_flops();
  } catch (const InputError&) {
  }
}

}  // namespace tandem::tests::fuzz
TANDEM_FUZZ_TARGET(hf_config)
