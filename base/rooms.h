// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which namespace sees which: each top folder has its own, and names those of the folders below it without
// saying where they are from. A folder's own name wins over one from below; one from a folder that it does
// not stand on does not compile. Every header reaches this file by its includes.

namespace tandem {

namespace base {}
namespace models {
using namespace base;
}
namespace topologies {
using namespace base;
}
namespace schemes {
using namespace models;
using namespace topologies;
}  // namespace schemes
namespace sim {
using namespace schemes;
}
namespace exec {
using namespace schemes;
}
namespace answers {
using namespace sim;
}
namespace calibration {
using namespace answers;
}
namespace plan {
using namespace answers;
}
namespace sweep {
using namespace answers;
}
namespace pictures {
using namespace calibration;
using namespace plan;
}  // namespace pictures
namespace app {
using namespace pictures;
using namespace sweep;
using namespace exec;
}  // namespace app
namespace python {
using namespace pictures;
using namespace sweep;
}  // namespace python
namespace tests {
using namespace app;
}

}  // namespace tandem
