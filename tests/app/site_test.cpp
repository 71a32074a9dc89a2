// SPDX-License-Identifier: Apache-2.0
// What `tandem serve` answers, request by request, without a network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/serve/site.h"
#include "base/json.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kHost = "127.0.0.1:8642";

SiteLimits small_limits() {
  SiteLimits out;
  out.answer = std::chrono::milliseconds(0);  // by this thread
  return out;
}

WebRequest get(const std::string& path) {
  return {.method = "GET", .path = path, .query = {}, .host = kHost};
}

WebRequest post(const std::string& path, const std::string& body) {
  WebRequest out = get(path);
  out.method = "POST";
  out.content_type = "application/json";
  out.body = body;
  return out;
}

/// The error of a response, which must have that status.
std::string refusal(const WebResponse& response, int status = 400) {
  EXPECT_EQ(response.status, status) << response.body;
  return Json::parse(response.body, "response").text("error", "");
}

TEST(WebSite, AnswersAsTheCommandLineDoes) {
  WebSite site("", small_limits());
  WebRequest request =
      post("/answer", R"({"model": "lenet5", "system": "dgx1-v100", "devices": [1, 2], "set": ["nodes=2"]})");
  request.query["timeline"] = "1";
  const WebResponse response = site.answer(request);
  ASSERT_EQ(response.status, 200) << response.body;
  const Json answer = Json::parse(response.body, "response");
  const ChildResult line =
      tool(small_predict({"--set", "nodes=2", "--format", "json", "--reproducible", "--quiet"}));
  EXPECT_TRUE(answer.at("document") == Json::parse(line.out, "predict"));
  EXPECT_EQ(answer.at("command").as_text(),
            "tandem predict --model lenet5 --system dgx1-v100 --devices 1,2 --set nodes=2");
}

TEST(WebSite, AnswersDoNotDependOnWhatWasAskedBefore) {
  WebSite busy("", small_limits());
  const auto question = [](int batch, const std::string& more) {
    return post("/answer", R"({"model": "lenet5", "system": "dgx1-v100", "devices": "2", "batch": )" +
                               std::to_string(batch) + more + "}");
  };
  const std::vector<std::string> others = {"", R"(, "set": ["nodes=2", "links.nvlink.bandwidth=50GB/s"])",
                                           R"(, "precision": "fp16", "staged": true)",
                                           R"(, "scheme": "parameter-server:mode=async")"};
  for (const std::string& more : others) EXPECT_EQ(busy.answer(question(8, more)).status, 200) << more;
  for (const std::string& more : others) {
    WebSite fresh("", small_limits());
    EXPECT_EQ(busy.answer(question(16, more)).body, fresh.answer(question(16, more)).body) << more;
  }
}

TEST(WebSite, SaysWhatAnAnswerCosts) {
  WebSite site("", small_limits());
  WebRequest request =
      post("/answer", R"({"model": "lenet5", "system": "dgx1-v100", "devices": "4", "epochs": 10})");
  request.query["price"] = "2.5";
  const Json answer = Json::parse(site.answer(request).body, "response");
  const Json& cost = answer.at("costs").items().at(0);
  const Json& report = answer.at("document").at("reports").items().at(0);
  EXPECT_DOUBLE_EQ(cost.at("usd_per_hour").as_real(), 10);
  EXPECT_NEAR(cost.at("usd_per_million_samples").as_real(),
              1e6 / report.at("samples_per_second").as_real() * 10 / 3600, 1e-9);
  EXPECT_NEAR(cost.at("usd_to_target").at("value").as_real(),
              report.at("progress").at("seconds").as_real() * 10 / 3600, 1e-9);
  request.query["price"] = "cheap";
  EXPECT_THAT(refusal(site.answer(request)), HasSubstr("--price"));
}

TEST(WebSite, NamesWhatIsWrongWithAQuestion) {
  WebSite site("", small_limits());
  const auto error = [&](const std::string& body) { return refusal(site.answer(post("/answer", body))); };
  EXPECT_THAT(error(R"({"model": "vgg17", "system": "dgx1-v100"})"), HasSubstr("Did you mean vgg16"));
  EXPECT_THAT(error(R"({"modell": "vgg16"})"), HasSubstr("Did you mean model"));
  EXPECT_THAT(error("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(error(R"({"model": )"), HasSubstr("question:1:"));
  EXPECT_THAT(error(R"({"model": "lenet5", "system": "dgx1-v100", "devices": "9"})"), HasSubstr("8"));
  EXPECT_THAT(
      error(R"({"model": "lenet5", "system": "h100-superpod", "set": ["nodes=9999"], "devices": "8192"})"),
      HasSubstr("at most 4096 devices are answered here"));
  EXPECT_THAT(error(R"({"model": "lenet5", "system": "dgx1-v100", "iterations": 100000})"),
              HasSubstr("iterations"));
  WebRequest deep = post("/answer", R"({"model": "lenet5", "system": "dgx1-v100"})");
  deep.query["depth"] = "deepest";
  EXPECT_THAT(refusal(site.answer(deep)), HasSubstr("rate, report, full"));
}

/// Files that a question may name in many places.
TEST(WebSite, ReadsNoFileThatARequestNames) {
  const Scratch scratch;
  WebSite site("", small_limits());
  const std::string secret = scratch.write("secret.json", "{\"name\": \"the secret\"}");
  const auto asks = [&](const std::string& option) {
    std::string text = R"({"model": "lenet5", "system": "dgx1-v100", "devices": "2", )" + option + "}";
    for (std::size_t at; (at = text.find("FILE")) != std::string::npos;) text.replace(at, 4, secret);
    return refusal(site.answer(post("/answer", text)));
  };
  for (const char* option :
       {R"("scheme": "FILE")", R"("recipe": "FILE")", R"("profile": "FILE")", R"("swap": "device=FILE")",
        R"("with": ["2 FILE"])", R"("then": ["1 FILE"])", R"("adapter": "FILE")",
        R"("scheme": "secret.json")", R"("set": ["devices.*.model=FILE"])"}) {
    const std::string error = asks(option);
    EXPECT_THAT(error, Not(HasSubstr("the secret"))) << option;
    EXPECT_THAT(error, ::testing::AnyOf(HasSubstr("only names are read"), HasSubstr("no "))) << option;
  }
  EXPECT_THAT(asks(R"("data": "FILE")"), Not(HasSubstr("the secret")));
  EXPECT_THAT(asks(R"("collective-profile": "FILE")"), Not(HasSubstr("the secret")));
  for (const char* name : {"/etc/passwd", "../../etc/passwd", "-", "x.json"}) {
    const std::string text(name);
    EXPECT_NE(
        refusal(site.answer(post("/answer", "{\"model\": \"" + text + "\", \"system\": \"dgx1-v100\"}"))),
        "");
    EXPECT_NE(refusal(site.answer(post("/answer", "{\"model\": \"lenet5\", \"system\": \"" + text + "\"}"))),
              "");
    WebRequest system = get("/system");
    system.query["name"] = text;
    EXPECT_NE(refusal(site.answer(system)), "");
  }
  Json machine = Json::parse(tool({"show", "system", "dgx1-v100", "--format", "json"}).out, "system");
  const std::string paths = R"({"model": "lenet5", "devices": "2", "system": {"name": "x", "summary": "x",
    "devices": {"gpu0": {"model": ")" +
                            secret + R"("}}, "links": {}}})";
  EXPECT_THAT(refusal(site.answer(post("/answer", paths))), Not(HasSubstr("the secret")));
  const std::string extends =
      R"({"model": "lenet5", "system": {"name": "x", "summary": "x", "extends": ")" + secret + R"("}})";
  EXPECT_THAT(refusal(site.answer(post("/answer", extends))), Not(HasSubstr("the secret")));
}

TEST(WebSite, ImportsAMachineThatCanThenBeAsked) {
  WebSite site("", small_limits());
  const std::string topo =
      "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV4\t0-31\t0\nGPU1\tNV4\t X "
      "\t0-31\t0\n\nLegend:\n";
  std::string escaped;
  for (const char c : topo) escaped += c == '\t' ? "\\t" : c == '\n' ? "\\n" : std::string(1, c);
  const WebResponse response =
      site.answer(post("/import", R"({"text": ")" + escaped + R"(", "device": "a100-sxm-40gb"})"));
  ASSERT_EQ(response.status, 200) << response.body;
  const std::string begin = "{\"system\":";
  const std::string machine =
      response.body.substr(begin.size(), response.body.rfind(",\"notes\"") - begin.size());
  const WebResponse answer =
      site.answer(post("/answer", R"({"model": "lenet5", "devices": "2", "system": )" + machine + "}"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_THAT(answer.body, HasSubstr("--system imported.json"));
  EXPECT_THAT(refusal(site.answer(post("/import", R"({"text": "hello"})"))), HasSubstr("nvidia-smi topo -m"));
  EXPECT_THAT(
      refusal(site.answer(post("/import", R"({"text": ")" + escaped + R"(", "device": "/etc/x.json"})"))),
      HasSubstr("only names are read"));
}

TEST(WebSite, ServesThePageAndTheNames) {
  WebSite site("", small_limits());
  const WebResponse page = site.answer(get("/"));
  EXPECT_EQ(page.type, "text/html; charset=utf-8");
  EXPECT_THAT(page.body, HasSubstr("connect-src 'self'"));
  const Json options = Json::parse(site.answer(get("/options")).body, "options");
  EXPECT_GT(options.at("systems").items().size(), 100u);
  EXPECT_GT(options.at("schemes").items().size(), 20u);
  WebRequest system = get("/system");
  system.query["name"] = "dgx1-v100";
  EXPECT_THAT(site.answer(system).body, HasSubstr("\"bandwidth\":\"25GB/s\""));
  EXPECT_EQ(site.answer(get("/etc/passwd")).status, 404);
  EXPECT_EQ(site.answer(get("/answer")).status, 405);
  EXPECT_EQ(site.answer(post("/options", "")).status, 405);
}

TEST(WebSite, IsThereForItsOwnPageAlone) {
  WebSite site("", small_limits());
  for (const char* host : {"localhost", "localhost:8642", "127.0.0.1", "[::1]:8642"}) {
    WebRequest request = get("/");
    request.host = host;
    EXPECT_EQ(site.answer(request).status, 200) << host;
  }
  for (const char* host :
       {"", "evil.example", "evil.example:8642", "127.0.0.1.evil.example", "localhost.evil:1"}) {
    WebRequest request = get("/");
    request.host = host;
    EXPECT_EQ(site.answer(request).status, 403) << host;
  }
  WebRequest request = post("/answer", R"({"model": "lenet5", "system": "dgx1-v100"})");
  request.origin = "http://evil.example";
  EXPECT_EQ(site.answer(request).status, 403);
  request.origin = std::string("http://") + kHost;
  request.content_type = "text/plain";  // what a form of another site may send
  EXPECT_EQ(site.answer(request).status, 415);
}

TEST(WebSite, AsksForItsToken) {
  const std::string token = "0123456789abcdef";
  WebSite site(token, small_limits());
  WebRequest request = get("/options");
  request.host = "gpu-box.example:8000";
  EXPECT_EQ(site.answer(request).status, 401);
  request.authorization = "Bearer 0123456789abcdeX";
  EXPECT_EQ(site.answer(request).status, 401);
  request.query["token"] = token;  // in an address of the page alone
  EXPECT_EQ(site.answer(request).status, 401);
  request.authorization = "Bearer " + token;
  EXPECT_EQ(site.answer(request).status, 200);
  WebRequest page = get("/");
  EXPECT_EQ(site.answer(page).status, 401);
  page.query["token"] = token;
  EXPECT_EQ(site.answer(page).status, 200);
}

TEST(WebSite, LimitsSizeTimeAndNumber) {
  SiteLimits limits;
  limits.body_bytes = 100;
  WebSite small("", limits);
  EXPECT_EQ(small.answer(post("/answer", std::string(101, ' '))).status, 413);

  limits = {};
  limits.answer = std::chrono::milliseconds(1);
  WebSite slow("", limits);
  const WebRequest long_question =
      post("/answer", R"({"model": "resnet50", "system": "v100-pcie-8x", "devices": "8", "iterations": 2000,
                     "scheme": "parameter-server:mode=async"})");
  EXPECT_THAT(refusal(slow.answer(long_question), 503), HasSubstr("ask it of tandem predict"));

  limits.at_once = 0;  // no place is ever free: none depends on how soon another ends
  limits.wait = std::chrono::milliseconds(1);
  WebSite full("", limits);
  EXPECT_THAT(refusal(full.answer(long_question), 503), HasSubstr("other questions"));
}

TEST(WebSite, ALateAnswerIsEnded) {
  SiteLimits limits;
  limits.at_once = 1;
  limits.answer = std::chrono::milliseconds(50);
  limits.wait = std::chrono::hours(1);
  limits.iterations = 100'000'000;
  WebSite site("", limits);
  // To its end it would take hours.
  const std::string endless =
      R"({"model": "resnet50", "system": "v100-pcie-8x", "devices": "8", "iterations": 1000000,
          "scheme": "parameter-server:mode=async"})";
  for (int i = 0; i < 3; ++i)  // each waits until the one before it has ended
    EXPECT_THAT(refusal(site.answer(post("/answer", endless)), 503), HasSubstr("ask it of tandem predict"));
}

}  // namespace
}  // namespace tandem::tests
