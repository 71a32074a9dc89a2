// SPDX-License-Identifier: Apache-2.0
#include "exec/request/checkpoint.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include "base/json_writer.h"

#include "base/json.h"
#include "base/text.h"

namespace tandem::exec {

namespace {

constexpr const char* kSchema = "tandem-checkpoint-1";

void append(std::string& bytes, const std::vector<float>& values) {
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

}  // namespace

void save_checkpoint(const std::string& path, const Graph& graph, const Optimizer& optimizer,
                     const Checkpoint& c) {
  const JsonWriter head = {{"schema", kSchema},
                           {"model", graph.name()},
                           {"optimizer", std::string(optimizer.name)},
                           {"iteration", c.iteration},
                           {"parameters", c.parameters.size()},
                           {"state", c.state.size()},
                           {"buffers", c.buffers.size()},
                           {"averaging", c.averaging.size()}};
  std::string bytes = head.dump() + "\n";
  for (const auto* values : {&c.parameters, &c.state, &c.buffers, &c.averaging}) append(bytes, *values);
  write_file(path, bytes);
}

Checkpoint load_checkpoint(const std::string& path, const Graph& graph, const Optimizer& optimizer) {
  const std::string bytes = read_file(path, int64_t{1} << 40);
  const auto line = bytes.find('\n');
  const auto fail = [&](const std::string& why) { throw InputError(fmt::format("{}: {}", path, why)); };
  if (line == std::string::npos || bytes.compare(0, 10, "{\"schema\":") != 0)
    fail("is no checkpoint of tandem");
  const Json head = Json::parse(bytes.substr(0, line), path);
  if (head.text("schema", "") != kSchema) fail("is no checkpoint of this version of tandem");
  if (head.text("model", "") != graph.name()) {
    fail(fmt::format("holds {}, not {}", printable(head.text("model", "")), graph.name()));
  }
  if (head.text("optimizer", "") != optimizer.name) {
    fail(fmt::format("was made with the optimizer {}, not {}", printable(head.text("optimizer", "")),
                     optimizer.name));
  }
  Checkpoint c;
  c.iteration = head.at("iteration").as_int(0);
  const char* at = bytes.data() + line + 1;
  auto left = static_cast<int64_t>(bytes.size() - line - 1);
  const auto take = [&](std::vector<float>& to, const char* key) {
    const int64_t n = head.at(key).as_int(0);
    if (n > left / static_cast<int64_t>(sizeof(float))) fail("ends too early: it was cut short");
    to.resize(static_cast<std::size_t>(n));
    const auto size = static_cast<std::size_t>(n) * sizeof(float);
    if (n > 0) std::memcpy(to.data(), at, size);
    at += size;
    left -= static_cast<int64_t>(size);
  };
  take(c.parameters, "parameters");
  take(c.state, "state");
  take(c.buffers, "buffers");
  if (head.find("averaging") != nullptr) take(c.averaging, "averaging");
  if (left != 0) fail("holds more than it says");
  if (static_cast<int64_t>(c.parameters.size()) != graph.parameter_elements())
    fail(fmt::format("holds {} parameters, {} has {}", c.parameters.size(), graph.name(),
                     graph.parameter_elements()));
  int64_t state = 0;
  for (const Layer& layer : graph.layers()) {
    for (const Parameter& p : layer.parameters) state += optimizer.state_words(p.elements, p.rows);
  }
  if (static_cast<int64_t>(c.state.size()) != state)
    fail("holds another amount of optimiser state than its optimizer keeps");
  return c;
}

}  // namespace tandem::exec
