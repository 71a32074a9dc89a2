// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `tandem serve` answers to a request, without connections: a function from request to response.
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/rooms.h"

namespace tandem::app {

struct WebRequest {
  std::string method, path;                               ///< "POST", "/answer"
  std::map<std::string, std::string> query;               ///< decoded
  std::string host, origin, content_type, authorization;  ///< headers; empty where there is none
  std::string body;
};

struct WebResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body;
};

struct SiteLimits {
  int64_t body_bytes = 256 << 10;
  int64_t devices = 4096;       ///< the largest count that is answered
  int64_t machine = 1'000'000;  ///< devices of a machine, asked about or not: each takes memory
  int64_t counts = 16;          ///< of device counts in a question
  int64_t iterations = 10'000;
  int at_once = 2;                        ///< questions that are computed at the same time
  std::chrono::milliseconds wait{5'000};  ///< for its turn
  /// For an answer. One that takes longer is refused and ended as soon as base/until.h may, and counts as one
  /// of `at_once` until then. 0: no limit; it is computed by the calling thread.
  std::chrono::milliseconds answer{20'000};
};

/// The page, the names that can be chosen, answers and imported machines:
///
///   GET  /                      the page; its address holds the question
///   GET  /options               options of a question, names of models, systems, schemes ...
///   ("tandem-options-1") GET  /system?name=NAME      a machine's document (docs/formats/system.md) POST
///   /answer                a question's options -> {"schema": "tandem-answer-1", "command", "costs",
///   "document":
///                               what predict writes with --format json --reproducible}.
///                               ?depth=rate|report|full, ?price=USD of a device and hour, ?timeline=1
///   POST /import                {"text": a dump of a machine, "device": NAME} -> {"system": document,
///   "notes": [...]}
///
/// What fails is {"error": text} with status 400 (the question is wrong), 401, 403, 404, 405, 413, 415 or 503
/// (busy or too slow). A question names models, systems and so on; no file that it names is read
/// (base/only_names.h). Requests must name a loopback host, and a page that sends one must come from here, so
/// that no other site's page can ask; with a token every request must have it, and then any host goes.
class WebSite {
 public:
  /// An empty token: none is needed. `version`: what the page says made it.
  explicit WebSite(std::string token = "", SiteLimits limits = {}, std::string version = "");
  /// Waits for the answers that are still being ended after their time limit.
  ~WebSite();
  /// Any thread may call it, at any time. Throws nothing but std::bad_alloc.
  WebResponse answer(const WebRequest& request);
  const SiteLimits& limits() const { return limits_; }

 private:
  struct Desk;
  std::string token_;
  SiteLimits limits_;
  std::string version_;
  std::shared_ptr<Desk> desk_;  ///< answers that took too long still use it
};

}  // namespace tandem::app
