// SPDX-License-Identifier: Apache-2.0
#include "base/version.h"

#include <revision.h>  // made by cmake/revision.cmake

namespace tandem::base {

std::string version() { return TANDEM_VERSION; }

std::string commit() { return TANDEM_COMMIT; }

std::string build_name() { return commit().empty() ? version() : version() + " commit " + commit(); }

}  // namespace tandem::base
