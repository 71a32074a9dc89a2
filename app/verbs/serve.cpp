// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "app/console/cli.h"
#include "app/console/interrupt.h"
#include "app/console/output.h"
#include "app/console/version.h"
#include "app/serve/server.h"

namespace tandem::app {

namespace {

constexpr int64_t kPort = 8642;
constexpr std::size_t kLeastToken = 16;

std::string read_token(const Arguments& arguments, bool loopback) {
  std::string token = arguments.text("token", "");
  if (token.empty() && !loopback)
    throw UsageError(fmt::format(
        "--host {}: others can then ask this machine, so a token is needed: --token with {} letters or more",
        printable(arguments.text("host", "")), kLeastToken));
  const bool plain = std::all_of(token.begin(), token.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
  if (arguments.has("token") && (token.size() < kLeastToken || !plain))
    throw UsageError(
        fmt::format("--token: {} or more letters, digits, dashes, dots and underscores", kLeastToken));
  return token;
}

int run_serve(const Arguments& arguments) {
  Listening at;
  at.host = arguments.text("host", at.host);
  at.port = static_cast<int>(arguments.integer("port", kPort, 0, 65535));
  const bool loopback = at.host == "127.0.0.1" || at.host == "localhost" || at.host == "::1";
  const std::string token = read_token(arguments, loopback);
  SiteLimits limits;
  limits.at_once = static_cast<int>(
      arguments.integer("at-once", std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, 64), 1, 1024));
  WebSite site(token, limits, version());
  catch_interrupts();
  serve(site, at, interrupted, [&](int port) {
    const std::string host = at.host.find(':') == std::string::npos ? at.host : "[" + at.host + "]";
    write_stdout(fmt::format("http://{}:{}/{}\n", host, port, token.empty() ? "" : "?token=" + token));
    note(arguments, "open that address in a browser; Ctrl-C ends");
  });
  std::fflush(nullptr);
  std::_Exit(0);  // an answer that took too long may still be computed by its thread
}

}  // namespace

void register_serve(Registry<Verb>& registry) {
  registry.add(
      {.name = "serve",
       .summary =
           "a page in the browser that predicts while you choose: machine, model, scheme, links, failures",
       .usage = "[options]",
       .flags = {{"port", "N", "on which it listens; 0: any that is free; default 8642"},
                 {"host", "ADDRESS",
                  "default 127.0.0.1, where programs of this machine alone can ask; any other needs --token"},
                 {"token", "TEXT",
                  "what a request must know, 16 letters or more; is part of the printed address"},
                 {"at-once", "N", "questions computed at the same time; default: one per processor"},
                 quiet_flag()},
       .run = run_serve,
       .details = "Prints its address and serves until Ctrl-C. The address in the browser holds the whole "
                  "question and "
                  "can be shared; the page shows the command that gives the same answer. Requests name "
                  "models, systems "
                  "and schemes; no file that they name is read. docs/page.md describes the page and its "
                  "requests.\n\nExamples\n"
                  "  tandem serve\n"
                  "  tandem serve --host 0.0.0.0 --port 8000 --token \"$(openssl rand -hex 16)\""});
}

}  // namespace tandem::app
