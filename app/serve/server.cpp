// SPDX-License-Identifier: Apache-2.0
#include "app/serve/server.h"

#include <fmt/format.h>

#include "base/error.h"

#ifdef TANDEM_HAS_HTTPLIB

#include <httplib.h>

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <string_view>
#include <thread>

#include "base/json_writer.h"

namespace tandem::app {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kReadSeconds = 5, kWriteSeconds = 30, kIdleSeconds = 5;
constexpr std::chrono::seconds kBodySeconds{20};  // for all of a request's body
constexpr std::size_t kMostRefused = 8 << 20;     // bytes of a body that are read though they are too many
constexpr std::size_t kRequestsOfAConnection = 100'000;
constexpr int kTooLong = 413;

/// As it stands: neither compressed, which costs more than it saves within a machine, nor copied for a range.
void put(httplib::Response& out, WebResponse response) {
  out.status = response.status;
  const auto body = std::make_shared<const std::string>(std::move(response.body));
  out.set_content_provider(body->size(), response.type,
                           [body](std::size_t from, std::size_t size, httplib::DataSink& to) {
                             to.write(body->data() + from, size);
                             return true;
                           });
}

WebResponse refusal(int status, std::string_view why) {
  return {status, "application/json", JsonWriter{{"error", why}}.dump() + "\n"};
}

/// Says so and ends the connection, on which the rest of the request would be taken for the next one.
void put_and_close(httplib::Response& out, const WebResponse& response) {
  out.status = response.status;
  out.set_header("Connection", "close");
  out.set_chunked_content_provider(response.type, [body = response.body](std::size_t, httplib::DataSink& to) {
    to.write(body.data(), body.size());
    to.done();     // the response is whole ...
    return false;  // ... and the connection ends
  });
}

std::string too_long(const WebSite& site) {
  return fmt::format("a request has at most {} bytes", site.limits().body_bytes);
}

/// Reads a body, of which more than the limit is not kept. False where it does not end in size or time.
bool read_body(const httplib::Request& in, const httplib::ContentReader& reader, std::size_t limit,
               std::string& body) {
  const auto until = Clock::now() + kBodySeconds;
  std::size_t size = 0;
  const httplib::ContentReceiver take = [&](const char* data, std::size_t more) {
    size += more;
    if (body.size() <= limit) body.append(data, std::min(more, limit + 1 - body.size()));
    return size <= kMostRefused && Clock::now() < until;
  };
  if (in.is_multipart_form_data())
    return reader([](const httplib::MultipartFormData&) { return true; }, take);
  return reader(take);
}

WebResponse response_to(WebSite& site, const httplib::Request& in, std::string body) {
  WebRequest request{.method = in.method == "HEAD" ? "GET" : in.method,
                     .path = in.path,
                     .query = {},
                     .host = in.get_header_value("Host"),
                     .origin = in.get_header_value("Origin"),
                     .content_type = in.get_header_value("Content-Type"),
                     .authorization = in.get_header_value("Authorization"),
                     .body = std::move(body)};
  for (const auto& [key, value] : in.params) request.query.emplace(key, value);
  try {
    return site.answer(request);
  } catch (const std::bad_alloc&) {
    return refusal(503, "not enough memory");
  }
}

void respond_to_post(WebSite& site, const httplib::Request& in, httplib::Response& out,
                     const httplib::ContentReader& reader) {
  std::string body;
  const auto limit = static_cast<std::size_t>(site.limits().body_bytes);
  if (read_body(in, reader, limit, body)) {
    put(out, response_to(site, in, std::move(body)));
  } else {
    const bool long_one = out.status == kTooLong || body.size() > limit;
    put_and_close(out, long_one ? refusal(kTooLong, too_long(site))
                                : refusal(400, "the request's body cannot be read"));
  }
}

void set_limits(httplib::Server& server, const WebSite& site, int threads) {
  server.new_task_queue = [threads] { return new httplib::ThreadPool(static_cast<std::size_t>(threads)); };
  server.set_payload_max_length(static_cast<std::size_t>(site.limits().body_bytes));
  server.set_read_timeout(kReadSeconds);
  server.set_write_timeout(kWriteSeconds);
  server.set_keep_alive_timeout(kIdleSeconds);
  server.set_keep_alive_max_count(kRequestsOfAConnection);
  server.set_tcp_nodelay(true);
  server.set_socket_options([](socket_t socket) {  // a port that another program has is not shared with it
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_default_headers({{"X-Content-Type-Options", "nosniff"},
                              {"X-Frame-Options", "DENY"},
                              {"Referrer-Policy", "no-referrer"},
                              {"Cache-Control", "no-store"}});
}

void set_handlers(httplib::Server& server, WebSite& site) {
  server.set_pre_routing_handler([](const httplib::Request& in, httplib::Response& out) {
    const bool known = in.method == "GET" || in.method == "HEAD" || in.method == "POST";
    if (known && in.ranges.empty()) return httplib::Server::HandlerResponse::Unhandled;
    put_and_close(out, known ? refusal(400, "responses are given whole: without Range")
                             : refusal(405, "there are GET and POST"));
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Get(".*", [&site](const httplib::Request& in, httplib::Response& out) {
    put(out, response_to(site, in, ""));
  });
  server.Post(".*",
              [&site](const httplib::Request& in, httplib::Response& out,
                      const httplib::ContentReader& reader) { respond_to_post(site, in, out, reader); });
  server.set_error_handler([&site](const httplib::Request&, httplib::Response& out) {
    if (out.has_header("Content-Type")) return;  // said already
    const std::string why = out.status == kTooLong ? too_long(site)
                            : out.status == 414    ? "the address is too long"
                                                   : "this is no request that can be read";
    out.set_content(refusal(out.status, why).body, "application/json");
  });
}

}  // namespace

void serve(WebSite& site, const Listening& at, const std::atomic<bool>& stop,
           const std::function<void(int port)>& ready) {
  httplib::Server server;
  set_limits(server, site, at.threads);
  set_handlers(server, site);
  int port = at.port;
  if (port == 0) {
    port = server.bind_to_any_port(at.host);
  } else if (!server.bind_to_port(at.host, port)) {
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
