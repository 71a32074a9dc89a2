// SPDX-License-Identifier: Apache-2.0
#include "python/plots.h"

#include <fmt/format.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "pictures/documents.h"
#include "pictures/draw.h"
#include "pictures/system_drawing.h"
#include "python/document.h"
#include "python/keywords.h"

namespace tandem::python {

namespace nb = nanobind;

namespace {

/// Drawn when it is first looked at.
class DrawnPicture {
 public:
  explicit DrawnPicture(Picture picture) : picture_(std::move(picture)) {}
  const std::string& name() const { return picture_.name; }
  const std::string& svg() { return drawn("svg", svg_); }
  const std::string& png() { return drawn("png", png_); }
  /// The file that it wrote.
  std::string save(const std::string& path) {
    const std::string kind = picture_kind(path);
    if (kind.empty())
      throw InputError(fmt::format("{}: a picture must end in .png or .svg", printable(path)));
    write_file(path, kind == "svg" ? svg() : png());
    return path;
  }

 private:
  const std::string& drawn(std::string_view kind, std::string& bytes) {
    const nb::gil_scoped_release others;
    const std::lock_guard one(mutex_);
    if (bytes.empty()) bytes = picture_.plot.drawn(kind);
    return bytes;
  }
  Picture picture_;
  std::mutex mutex_;
  std::string svg_, png_;
};

struct DrawnPictures {
  std::vector<std::shared_ptr<DrawnPicture>> all;
  std::vector<std::string> notes;
};

nb::object bytes_of_text(const std::string& text) { return nb::bytes(text.data(), text.size()); }

/// One image for each: names within two SVGs of one page would be taken for one another's.
std::string images(const DrawnPictures& pictures) {
  const nb::object encode = nb::module_::import_("base64").attr("b64encode");
  std::string out;
  for (const auto& picture : pictures.all)
    out += fmt::format("<img alt=\"{}\" src=\"data:image/svg+xml;base64,{}\"/>", picture->name(),
                       nb::cast<std::string>(encode(bytes_of_text(picture->svg())).attr("decode")()));
  return out;
}

std::shared_ptr<DrawnPicture> item(const DrawnPictures& pictures, nb::handle key) {
  const auto& all = pictures.all;
  if (nb::isinstance<nb::str>(key)) {
    const auto name = nb::cast<std::string>(key);
    std::vector<std::string> known;
    for (const auto& picture : all) {
      if (picture->name() == name) return picture;
      known.push_back(picture->name());
    }
    throw InputError(
        fmt::format("there is no picture \"{}\".{}", printable(name), did_you_mean(name, known)));
  }
  auto index = nb::cast<int64_t>(key);
  const auto count = static_cast<int64_t>(all.size());
  if (index < 0) index += count;
  if (index < 0 || index >= count) throw nb::index_error(fmt::format("there are {} pictures", count).c_str());
  return all[static_cast<std::size_t>(index)];
}

DrawnPictures plot(const nb::args& arguments, const nb::kwargs& keywords) {
  static const std::vector<Option> options = picture_options();
  const Values values = read_keywords("plot", options, keywords);
  if (arguments.size() == 0) throw UsageError("tandem.plot takes reports, comparisons, plans or systems");
  DrawnPictures out;
  std::vector<std::string> texts;
  std::vector<System> systems;
  for (const nb::handle given : arguments) {
    if (nb::isinstance<SystemValue>(given)) {
      systems.push_back(nb::cast<const SystemValue&>(given).system);
    } else {
      texts.push_back(text_of("document", given));
    }
  }
  const nb::gil_scoped_release others;
  std::vector<Json> documents;
  for (const std::string& text : texts)
    documents.push_back(is_document(text) ? Json::parse(text, "document") : Json::load(text));
  const std::string kind = picture_kind_asked(values);
  Pictures pictures;
  if (!documents.empty())
    pictures = pictures_of(
        documents, {kind, values.text("system", ""), [](std::string_view of) { return std::string(of); },
                    [&](std::string_view note) { out.notes.emplace_back(note); }});
  for (const System& system : systems) pictures.push_back({system.name(), draw_system(system)});
  for (Picture& picture : pictures) out.all.push_back(std::make_shared<DrawnPicture>(std::move(picture)));
  return out;
}

void bind_picture(nb::module_& module) {
  nb::class_<DrawnPicture>(module, "Picture", "A picture, drawn by gnuplot when it is first looked at.")
      .def_prop_ro("name", &DrawnPicture::name, "What it shows: \"scaling\", \"timeline\", ...")
      .def_prop_ro("svg", &DrawnPicture::svg, "The SVG that `tandem plot` writes.")
      .def_prop_ro(
          "png", [](DrawnPicture& p) { return bytes_of_text(p.png()); }, "The PNG that `tandem plot` writes.",
          nb::for_getter(nb::sig("def png(self) -> bytes")))
      .def(
          "save", [](DrawnPicture& p, nb::handle path) { return p.save(text_of("path", path)); },
          nb::arg("path"), nb::sig("def save(self, path: str | os.PathLike) -> str"),
          "Writes a file, whose name ends in .png or .svg, and returns its name.")
      .def("_repr_svg_", &DrawnPicture::svg)
      .def("__repr__", [](const DrawnPicture& p) { return fmt::format("<tandem.Picture {}>", p.name()); });
}

}  // namespace

void bind_plot(nb::module_& module) {
  bind_picture(module);
  nb::class_<DrawnPictures>(module, "Pictures", "Pictures, which a notebook shows one below the other.")
      .def("__len__", [](const DrawnPictures& p) { return p.all.size(); })
      .def("__getitem__", &item, nb::arg("key"), nb::sig("def __getitem__(self, key: int | str) -> Picture"),
           "By number or name.")
      .def(
          "__iter__", [](const DrawnPictures& p) { return nb::iter(nb::cast(p.all)); },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[Picture]"))
      .def_ro("notes", &DrawnPictures::notes, "What the command line notes on stderr.")
      .def("_repr_html_", &images)
      .def("__repr__", [](const DrawnPictures& p) {
        std::string names;
        for (const auto& picture : p.all) names += " " + picture->name();
        return fmt::format("<tandem.Pictures{}>", names);
      });
  static const std::vector<Option> options = picture_options();
  static const std::string signature = signature_of(
      "def plot(*documents: Report | System | collections.abc.Mapping | str", options, "Pictures");
  static const std::string doc = docstring_of(
      "The pictures of reports, comparisons, plans and systems, those of several reports side by side.\n\n"
      "Drawn by gnuplot, and machines by Graphviz, which must be installed.",
      options, "Pictures: a sequence of Picture");
  module.def("plot", &plot, nb::sig(signature.c_str()), doc.c_str());
}

}  // namespace tandem::python
