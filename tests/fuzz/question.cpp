// SPDX-License-Identifier: Apache-2.0
#include "answers/question.h"

#include "tests/fuzz/target.h"

namespace tandem::tests::fuzz {

/// A question's options, which may name any file: they are read as a document, and no further.
void question(std::string_view bytes) {
  try {
    const Values values = values_of(Json::parse(bytes, "fuzz"));
    values.integers("devices", {1}, 1, 1'000'000);
    read_batch_split(values);
    read_failures(values);
    read_progress_question(values);
  } catch (const InputError&) {
  } catch (const UsageError&) {
  }
}

}  // namespace tandem::tests::fuzz
TANDEM_FUZZ_TARGET(question)
