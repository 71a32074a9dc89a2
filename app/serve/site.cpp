// SPDX-License-Identifier: Apache-2.0
#include "app/serve/site.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include "app/page/page.h"
#include "app/serve/costs.h"
#include "app/serve/recent.h"
#include "app/serve/site_lists.h"
#include "base/data.h"
#include "base/json_writer.h"
#include "base/only_names.h"
#include "base/until.h"
#include "sim/cost/libraries.h"
#include "topologies/import/importer.h"

namespace tandem::app {

namespace {

constexpr JsonLimits kRequestLimits = {.bytes = 1 << 20, .depth = 32, .nodes = 50'000};
constexpr double kMostPrice = 1e6;  // USD of a device and hour
constexpr std::string_view kJson = "application/json";

WebResponse failure(int status, std::string_view text) {
  return {status, std::string(kJson), JsonWriter{{"error", text}}.dump() + "\n"};
}

WebResponse json_response(std::string body) { return {200, std::string(kJson), std::move(body)}; }

/// Without its port, which may follow an IPv6 address in brackets.
std::string host_name(const std::string& host) {
  const std::size_t bracket = host.rfind(']'), colon = host.rfind(':');
  return colon != std::string::npos && (bracket == std::string::npos || colon > bracket)
             ? host.substr(0, colon)
             : host;
}

bool is_loopback(const std::string& host) {
  const std::string name = host_name(host);
  return name == "localhost" || name == "127.0.0.1" || name == "[::1]";
}

/// In a time that does not tell how many letters are right.
bool same_secret(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |=
        static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  return difference == 0;
}

std::string query_value(const WebRequest& request, const char* key) {
  const auto found = request.query.find(key);
  return found == request.query.end() ? "" : found->second;
}

Depth depth_of(const std::string& text) {
  if (text.empty() || text == "full") return Depth::full;
  if (text == "report") return Depth::report;
  if (text == "rate") return Depth::rate;
  throw InputError(fmt::format("depth \"{}\" is none of rate, report, full", printable(text)));
}

void check_size(const Question& q, const SiteLimits& limits) {
  if (static_cast<int64_t>(q.devices.size()) > limits.counts)
    throw InputError(
        fmt::format("at most {} device counts are answered here, not {}", limits.counts, q.devices.size()));
  const int64_t most = *std::max_element(q.devices.begin(), q.devices.end());
  if (most > limits.devices)
    throw InputError(fmt::format("at most {} devices are answered here, not {}: tandem predict answers more",
                                 limits.devices, most));
  if (q.system.accelerator_count() > limits.machine)
    throw InputError(fmt::format("at most machines of {} devices are answered here, not {}", limits.machine,
                                 q.system.accelerator_count()));
  if (q.iterations > limits.iterations)
    throw InputError(
        fmt::format("at most {} iterations are answered here, not {}", limits.iterations, q.iterations));
}

std::string answer_text(const WebRequest& request, Recent& recent, const SiteLimits& limits) {
  const Depth depth = depth_of(query_value(request, "depth"));
  const std::string price_text = query_value(request, "price");
  std::optional<double> price;
  if (!price_text.empty()) price = parse_real(price_text, 0, kMostPrice, option_place("price"));
  Json body = Json::parse(request.body, "question", kRequestLimits);
  if (!body.is_object()) body.fail("expected an object with the options of a question");
  if (body.find("schema") == nullptr) body.set("schema", Json::make_text("tandem-question-1", body.place()));
  const Values values = values_of(body);
  const auto question = recent.question(values, query_value(request, "timeline") == "1");
  check_size(*question, limits);
  const std::vector<Report> reports = predict(*question, depth);
  JsonWriter out = {{"schema", "tandem-answer-1"}, {"command", command_of(question->given)}};
  out["costs"] = price ? costs_json(reports, *price) : JsonWriter{};
  std::string text = out.dump();
  text.pop_back();
  return text + ",\"document\":" + reports_to_json(reports, true) + "}\n";
}

std::string imported_text(const WebRequest& request) {
  const Json body = Json::parse(request.body, "request", kRequestLimits);
  body.only({"text", "device"});
  const std::string& text = body.at("text").as_text();
  for (const SystemImporter& importer : import_registry().all()) {
    if (!importer.recognises(text)) continue;
    ImportChoices choices{};
    choices.device = body.text("device", "");
    std::vector<Machine> machines;
    machines.push_back(importer.read(text, "paste"));
    const Machine machine = merge(std::move(machines));
    std::vector<std::string> notes = machine.notes;
    const Json document = Json::parse(system_text(machine, choices, notes), "the system as imported");
    library_of(System::from_json(document));  // it can be read back
    return JsonWriter{{"system", JsonWriter(document)}, {"notes", notes}}.dump() + "\n";
  }
  throw InputError(
      "this is no dump of a machine that can be read: paste what \"nvidia-smi topo -m\" prints, NCCL's XML "
      "or hwloc's");
}

std::string system_document(const WebRequest& request) {
  const std::string name = query_value(request, "name");
  if (name.empty()) throw InputError("which system? /system?name=dgx1-v100");
  return JsonWriter(System::document(name, {})).dump() + "\n";
}

/// Runs `work` with its failures as responses.
template <typename Work>
WebResponse guarded(Work work) {
  try {
    const OnlyNames names(data_root());
    return json_response(work());
  } catch (const UsageError& error) {
    return failure(400, error.what());
  } catch (const InputError& error) {
    return failure(400, error.what());
  } catch (const std::bad_alloc&) {
    return failure(400, "not enough memory for what was asked; fewer devices would need less");
  } catch (const std::exception& error) {
    return failure(500, error.what());
  }
}

}  // namespace

/// Who is served, and what is kept for the next.
struct WebSite::Desk {
  std::mutex lock;
  std::condition_variable freed;
  int busy = 0;
  Recent recent;

  bool enter(const SiteLimits& limits) {
    std::unique_lock held(lock);
    if (!freed.wait_for(held, limits.wait, [&] { return busy < limits.at_once; })) return false;
    ++busy;
    return true;
  }
  void leave() {
    const std::lock_guard held(lock);
    --busy;
    freed.notify_all();
  }
  void await_all() {
    std::unique_lock held(lock);
    freed.wait(held, [&] { return busy == 0; });
  }
};

namespace {

/// A response that another thread makes.
struct Awaited {
  std::mutex lock;
  std::condition_variable came;
  std::optional<WebResponse> response;
  std::atomic<bool> late{false};  ///< nobody waits for it any more
};

}  // namespace

WebSite::WebSite(std::string token, SiteLimits limits, std::string version)
    : token_(std::move(token)),
      limits_(limits),
      version_(std::move(version)),
      desk_(std::make_shared<Desk>()) {}
WebSite::~WebSite() { desk_->await_all(); }

WebResponse WebSite::answer(const WebRequest& request) {
  const auto computed = [&](auto work) -> WebResponse {
    if (!request.content_type.starts_with(kJson))
      return failure(415, "Content-Type must be application/json");
    if (static_cast<int64_t>(request.body.size()) > limits_.body_bytes)
      return failure(413, fmt::format("a request has at most {} bytes", limits_.body_bytes));
    if (!desk_->enter(limits_)) return failure(503, "other questions are being answered; ask again");
    if (limits_.answer.count() == 0) {
      WebResponse out = guarded(work);
      desk_->leave();
      return out;
    }
    const auto awaited = std::make_shared<Awaited>();
    try {
      std::thread([work, awaited, desk = desk_] {
        const Until until(&awaited->late);
        WebResponse response = guarded(work);
        {
          const std::lock_guard held(awaited->lock);
          awaited->response = std::move(response);
          awaited->came.notify_one();
        }
        desk->leave();  // last: whoever ends the site waits for this
      }).detach();
    } catch (const std::system_error&) {
      desk_->leave();
      return failure(503, "this machine has no thread left for an answer; ask again");
    }
    std::unique_lock held(awaited->lock);
    if (awaited->came.wait_for(held, limits_.answer, [&] { return awaited->response.has_value(); }))
      return std::move(*awaited->response);
    awaited->late = true;
    return failure(503, fmt::format("the answer takes more than {} s: ask it of tandem predict",
                                    limits_.answer.count() / 1000));
  };
  if (token_.empty() && !is_loopback(request.host))
    return failure(403, "this is served to 127.0.0.1 and localhost alone");
  if (!request.origin.empty() && request.origin != "http://" + request.host)
    return failure(403, "another site's page may not ask here");
  const bool page = request.path == "/";
  const std::string bearer = "Bearer " + token_;
  if (!token_.empty() && !same_secret(request.authorization, bearer) &&
      !(page && same_secret(query_value(request, "token"), token_)))
    return failure(401, "the token is missing or wrong: open the address that tandem serve printed");
  const bool posts = request.path == "/answer" || request.path == "/import";
  if (!posts && !page && request.path != "/options" && request.path != "/system")
    return failure(404, "there are /, /options, /system, /answer and /import");
  if (request.method != (posts ? "POST" : "GET"))
    return failure(405, fmt::format("{} takes {}", request.path, posts ? "POST" : "GET"));
  if (page) {
    WebResponse out = guarded([&] { return live_page_html(version_); });
    if (out.status == 200) out.type = "text/html; charset=utf-8";
    return out;
  }
  if (request.path == "/options") return guarded([] { return options_text(); });
  if (request.path == "/system") return guarded([&] { return system_document(request); });
  if (request.path == "/import") return computed([request] { return imported_text(request); });
  return computed(
      [request, desk = desk_, limits = limits_] { return answer_text(request, desk->recent, limits); });
}

}  // namespace tandem::app
