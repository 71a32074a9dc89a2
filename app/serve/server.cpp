// SPDX-License-Identifier: Apache-2.0
#include "app/serve/server.h"

#include <fmt/format.h>

#include "base/error.h"

#ifdef TANDEM_HAS_HTTPLIB

#include <httplib.h>

#include <chrono>
#include <new>
#include <thread>

namespace tandem::app {

namespace {

constexpr int kReadSeconds = 5, kWriteSeconds = 30, kIdleSeconds = 5;
constexpr std::size_t kRequestsOfAConnection = 100'000;

void respond(WebSite& site, const httplib::Request& in, httplib::Response& out) {
  WebRequest request{.method = in.method,
                     .path = in.path,
                     .query = {},
                     .host = in.get_header_value("Host"),
                     .origin = in.get_header_value("Origin"),
                     .content_type = in.get_header_value("Content-Type"),
                     .authorization = in.get_header_value("Authorization"),
                     .body = in.body};
  for (const auto& [key, value] : in.params) request.query.emplace(key, value);
  WebResponse response;
  try {
    response = site.answer(request);
  } catch (const std::bad_alloc&) {
    response = {503, "application/json", "{\"error\":\"not enough memory\"}\n"};
  }
  out.status = response.status;
  out.set_content(std::move(response.body), response.type.c_str());
}

}  // namespace

void serve(WebSite& site, const Listening& at, const std::atomic<bool>& stop,
           const std::function<void(int port)>& ready) {
  httplib::Server server;
  server.new_task_queue = [&] { return new httplib::ThreadPool(static_cast<std::size_t>(at.threads)); };
  server.set_payload_max_length(static_cast<std::size_t>(site.limits().body_bytes));
  server.set_read_timeout(kReadSeconds);
  server.set_write_timeout(kWriteSeconds);
  server.set_keep_alive_timeout(kIdleSeconds);
  server.set_keep_alive_max_count(kRequestsOfAConnection);
  server.set_tcp_nodelay(true);
  server.set_default_headers({{"X-Content-Type-Options", "nosniff"},
                              {"X-Frame-Options", "DENY"},
                              {"Referrer-Policy", "no-referrer"},
                              {"Cache-Control", "no-store"}});
  const auto handler = [&](const httplib::Request& in, httplib::Response& out) { respond(site, in, out); };
  server.Get(".*", handler);
  server.Post(".*", handler);
  int port = at.port;
  if (port == 0) {
    port = server.bind_to_any_port(at.host.c_str());
  } else if (!server.bind_to_port(at.host.c_str(), port)) {
    port = -1;
  }
  if (port <= 0)
    throw DeviceError(
        fmt::format("cannot listen on {}:{}: another program does, or this machine has no such address",
                    printable(at.host), at.port));
  std::thread listener([&] { server.listen_after_bind(); });
  ready(port);
  while (!stop && server.is_running() == false) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  while (!stop && server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  server.stop();
  listener.join();
}

}  // namespace tandem::app

#else

namespace tandem::app {

void serve(WebSite&, const Listening&, const std::atomic<bool>&, const std::function<void(int port)>&) {
  throw DeviceError(
      "this program was built without cpp-httplib, which serve needs: apt-get install libcpp-httplib-dev, "
      "then build again");
}

}  // namespace tandem::app

#endif
