// SPDX-License-Identifier: Apache-2.0
#include "python/values.h"

#include <fmt/format.h>
#include <nanobind/operators.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "answers/asking.h"
#include "python/keywords.h"
#include "topologies/import/importer.h"

namespace tandem::python {

namespace nb = nanobind;

namespace {

nb::object as_dict(const std::string& text) { return nb::module_::import_("json").attr("loads")(text); }

ModelValue read_model_value(nb::handle given) {
  const std::string text = text_of("model", given);
  Values values;
  values.set("model", {text});
  return {text, read_model(values, text, option_place("model"))};
}

SystemValue read_system_value(nb::handle given, const std::vector<std::string>& set) {
  const std::string text = text_of("system", given);
  System::Sets sets;
  for (const std::string& one : set) sets.push_back(read_set(one, "set"));
  System system = load_system(text, sets, option_place("system"));
  std::string document = JsonWriter(system.document(sets)).dump();
  return {sets.empty() ? text : document, document, std::move(system)};
}

/// As `tandem import` reads it, whichever tool it is from.
SystemValue read_topo(const std::string& text, const std::string& device, const std::string& name) {
  for (const SystemImporter& importer : import_registry().all()) {
    if (!importer.recognises(text)) continue;
    ImportChoices choices{};
    choices.device = device;
    choices.name = name;
    std::vector<Machine> machines;
    machines.push_back(importer.read(text, "topo"));
    const Machine machine = merge(std::move(machines));
    std::vector<std::string> notes = machine.notes;
    const Json json = Json::parse(system_text(machine, choices, notes), "the system as imported");
    const std::string document = JsonWriter(json).dump();
    return {document, document, System::from_json(json)};
  }
  throw InputError(
      "this is no dump of a machine that can be read: give what \"nvidia-smi topo -m\" prints, NCCL's XML or "
      "hwloc's");
}

void bind_model(nb::module_& module) {
  nb::class_<ModelValue>(module, "Model", "A model: a name (tandem list models), a file or a document.")
      .def(
          "__init__",
          [](ModelValue* self, nb::object model) { new (self) ModelValue(read_model_value(model)); },
          nb::arg("model"), nb::sig("def __init__(self, model: str | collections.abc.Mapping) -> None"))
      .def_prop_ro("name", [](const ModelValue& m) { return m.graph.name(); })
      .def_prop_ro(
          "parameters",
          [](const ModelValue& m) { return m.graph.parameter_elements() + m.graph.frozen_elements(); },
          "Elements, of frozen weights too.")
      .def_prop_ro(
          "forward_flops", [](const ModelValue& m) { return m.graph.forward_flops().n; },
          "Floating-point operations of the forward pass of one sample; a multiply-add is two.")
      .def("__repr__", [](const ModelValue& m) { return fmt::format("<tandem.Model {}>", m.graph.name()); });
}

void bind_system(nb::module_& module) {
  nb::class_<SystemValue>(module, "System", "A machine: a name (tandem list systems), a file or a document.")
      .def(
          "__init__",
          [](SystemValue* self, nb::object system, const std::vector<std::string>& set) {
            new (self) SystemValue(read_system_value(system, set));
          },
          nb::arg("system"), nb::kw_only(), nb::arg("set") = std::vector<std::string>{},
          nb::sig("def __init__(self, system: str | collections.abc.Mapping, *, set: "
                  "collections.abc.Sequence[str] = ()) -> None"),
          "set: changes of it, \"nodes=16\", \"links.pcie.bandwidth=32GB/s\".")
      .def_static(
          "from_topo", &read_topo, nb::arg("text"), nb::kw_only(), nb::arg("device") = "",
          nb::arg("name") = "",
          "The machine that `nvidia-smi topo -m`, NCCL's XML or hwloc's describes. device: the model of "
          "its GPUs, where the text does not say it.")
      .def_prop_ro("name", [](const SystemValue& s) { return s.system.name(); })
      .def_prop_ro(
          "devices", [](const SystemValue& s) { return s.system.accelerator_count(); },
          "Accelerators, of all nodes together.")
      .def(
          "json", [](const SystemValue& s) { return s.document; }, "Its document (docs/formats/system.md).")
      .def("to_dict", [](const SystemValue& s) { return as_dict(s.document); })
      .def("__repr__",
           [](const SystemValue& s) { return fmt::format("<tandem.System {}>", s.system.name()); });
}

Values with_others(const std::vector<Option>& options, const std::string& document, nb::kwargs keywords) {
  Values values = read_keywords("Question", options, keywords);
  values.set("question", {document});
  return values;
}

void bind_question(nb::module_& module) {
  using Value = QuestionValue;
  static const std::vector<Option> options = question_options();
  static const std::string start = signature_of("def __init__(self, *", options, "None");
  static const std::string with = signature_of("def replace(self, *", options, "Question");
  nb::class_<Value>(module, "Question",
                    "What is asked: the options of `tandem predict`. A value: it can be compared, hashed, "
                    "pickled and sent to a thread; files are read when it is made.")
      .def(
          "__init__",
          [](Value* self, nb::kwargs keywords) {
            new (self) Value{read_once(read_keywords("Question", options, keywords), hooks({}))};
          },
          nb::sig(start.c_str()))
      .def_static(
          "from_json",
          [](nb::object document) {
            Values values;
            values.set("question", {text_of("question", document)});
            return Value{read_once(values, hooks({}))};
          },
          nb::arg("document"),
          nb::sig("def from_json(document: str | collections.abc.Mapping | Report) -> Question"),
          "Of a \"tandem-question-1\" document, a report, or a file that has one.")
      .def(
          "replace",
          [](const Value& self, nb::kwargs keywords) {
            return Value{
                read_once(with_others(options, self.question->to_json().dump(), keywords), hooks({}))};
          },
          nb::sig(with.c_str()), "The same with other values of some options; \"\" removes one.")
      .def(
          "json", [](const Value& q) { return q.question->to_json().dump(); },
          "The \"tandem-question-1\" document, which reads back as an equal question.")
      .def_prop_ro(
          "devices", [](const Value& q) { return q.question->devices; },
          "The device counts that it asks about.")
      .def("__eq__",
           [](const Value& a, nb::handle b) {
             return nb::isinstance<Value>(b) && *a.question == *nb::cast<const Value&>(b).question;
           })
      .def("__hash__", [](const Value& q) { return static_cast<Py_hash_t>(q.question->hash() >> 2); })
      .def("__getstate__", [](const Value& q) { return q.question->to_json().dump(); })
      .def("__setstate__",
           [](Value& q, const std::string& document) {
             Values values;
             values.set("question", {document});
             new (&q) Value{read_once(values, hooks({}))};
           })
      .def("__repr__", [](const Value& q) {
        return fmt::format("tandem.Question.from_json('{}')", q.question->to_json().dump());
      });
}

}  // namespace

void bind_values(nb::module_& module) {
  bind_model(module);
  bind_system(module);
  bind_question(module);
}

}  // namespace tandem::python
