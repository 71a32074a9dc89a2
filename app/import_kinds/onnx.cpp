// SPDX-License-Identifier: Apache-2.0
// A file of ONNX -> a model file that trains its graph.
#include <fmt/format.h>

#include <charconv>

#include "app/console/output.h"
#include "app/import_kind.h"
#include "base/error.h"
#include "base/json.h"

#ifdef TANDEM_HAS_PROTOBUF
#include "models/graph.h"
#include "models/import/onnx/onnx.h"
#endif

namespace tandem::app {

namespace {

#ifdef TANDEM_HAS_PROTOBUF

constexpr int64_t kMostSize = 1 << 24;  ///< of a dimension

models::OnnxChoices onnx_choices(const Arguments& arguments) {
  models::OnnxChoices out;
  if (arguments.has("loss")) out.loss = arguments.choice("loss", "none", {"none", "cross-entropy", "mse"});
  if (out.loss == "none") out.loss.clear();
  arguments.each("dim", [&](const std::string& one) {
    const std::size_t at = one.rfind('=');
    int64_t size = 0;
    const char *begin = one.data() + (at == one.npos ? one.size() : at + 1), *end = one.data() + one.size();
    const auto [rest, error] = std::from_chars(begin, end, size);
    if (error != std::errc() || rest != end || size < 1 || size > kMostSize)
      throw UsageError(
          fmt::format("--dim {}: wanted is NAME=N, with N of 1 .. {}", printable(one), kMostSize));
    out.sizes[one.substr(0, at)] = size;
  });
  return out;
}

int import_onnx(const Arguments& arguments, const std::vector<ImportFile>& files) {
  const ImportFile& file = only_file(files);
  constexpr int64_t kMost = int64_t{1} << 31;
  const std::string bytes = file.name == "stdin" ? file.text : read_file(file.name, kMost);
  models::OnnxModel model = models::model_of_onnx(bytes, file.name, onnx_choices(arguments));
  const Graph graph = Graph::from_json(Json::parse(model.document, "model of " + printable(file.name)));
  note(arguments, fmt::format("{}: {} parameters", graph.name(), graph.parameter_elements()));
  for (const std::string& remark : model.notes) note(arguments, remark);
  put_result(arguments, std::move(model.document));
  return 0;
}

bool like_onnx(std::string_view text) { return models::looks_like_onnx(text); }

#else

int import_onnx(const Arguments&, const std::vector<ImportFile>&) {
  throw DeviceError(
      "this program was built without protobuf, which import onnx needs: apt-get install libprotobuf-dev "
      "protobuf-compiler, then build again");
}

bool like_onnx(std::string_view) { return false; }

#endif

}  // namespace

void register_onnx(Registry<ImportKind>& registry) {
  registry.add({.name = "onnx",
                .summary = "a graph of ONNX: a model file that trains it",
                .recognises = like_onnx,
                .run = import_onnx,
                .flags = {{.name = "dim",
                           .value = "NAME=N",
                           .help = "of a graph: the size of a dimension that it only names; repeatable",
                           .repeatable = true},
                          {.name = "loss",
                           .value = "none|cross-entropy|mse",
                           .help = "of a graph: the loss of its output (none)"}},
                .large = true});
}

}  // namespace tandem::app
