// SPDX-License-Identifier: Apache-2.0
#include "app/serve/site.h"

#include "base/error.h"
#include "tests/fuzz/target.h"

namespace tandem::tests::fuzz {

namespace {

/// The text to the next line's end, which goes too.
std::string_view line_of(std::string_view& bytes) {
  const std::size_t end = bytes.find('\n');
  const std::string_view line = bytes.substr(0, end);
  bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
  return line;
}

/// A question that would take long is no finding.
tandem::app::SiteLimits fuzz_limits() {
  tandem::app::SiteLimits out;
  out.body_bytes = 8 << 10;
  out.devices = 16;
  out.counts = 2;
  out.iterations = 10;
  out.answer = std::chrono::milliseconds(0);
  return out;
}

}  // namespace

/// A request: "METHOD PATH", lines "key=value" of its query, "Name: value" of its headers, an empty line, the
/// body.
void site(std::string_view bytes) {
  static tandem::app::WebSite served("", fuzz_limits());
  tandem::app::WebRequest request;
  const std::string_view first = line_of(bytes);
  const std::size_t blank = first.find(' ');
  request.method = first.substr(0, blank);
  if (blank != std::string_view::npos) request.path = first.substr(blank + 1);
  while (!bytes.empty()) {
    const std::string_view line = line_of(bytes);
    if (line.empty()) break;
    if (const std::size_t is = line.find('='); is != std::string_view::npos)
      request.query.emplace(line.substr(0, is), line.substr(is + 1));
    if (line.starts_with("Host: ")) request.host = line.substr(6);
    if (line.starts_with("Origin: ")) request.origin = line.substr(8);
    if (line.starts_with("Content-Type: ")) request.content_type = line.substr(14);
  }
  request.body = bytes;
  const tandem::app::WebResponse response = served.answer(request);
  TANDEM_CHECK(response.status != 500);  // nothing but what is foreseen
}

}  // namespace tandem::tests::fuzz
TANDEM_FUZZ_TARGET(site)
