// SPDX-License-Identifier: Apache-2.0
#pragma once
// A WebSite on a port.
#include <atomic>
#include <functional>
#include <string>

#include "app/serve/site.h"

namespace tandem::app {

struct Listening {
  std::string host = "127.0.0.1";
  int port = 0;      ///< 0: any that is free
  int threads = 64;  ///< connections at the same time; each waiting one costs a hundred looks a second
};

/// Serves until `stop` is set. `ready` is called with the port once connections are accepted. Throws
/// DeviceError where the port cannot be had, and where the program was built without cpp-httplib.
void serve(WebSite& site, const Listening& at, const std::atomic<bool>& stop,
           const std::function<void(int port)>& ready);

}  // namespace tandem::app
