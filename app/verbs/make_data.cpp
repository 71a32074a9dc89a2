// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "app/console/cli.h"
#include "app/console/output.h"
#include "exec/data/image.h"
#include "exec/data/stored_images.h"
#include "exec/data/token_files.h"

namespace tandem::app {

namespace {

/// "256" or "500x375".
ImageSize read_size(const std::string& text, const Place& place) {
  const auto cross = text.find('x');
  const int64_t width = parse_integer(text.substr(0, cross), 1, kMostSide, place);
  const ImageSize out{
      width, cross == std::string::npos ? width : parse_integer(text.substr(cross + 1), 1, kMostSide, place)};
  if (out.pixels() > kMostPixels)
    throw InputError(place, fmt::format("{} pixels: at most {}", out.pixels(), kMostPixels));
  return out;
}

/// Options of one kind of data set are refused for the other.
void only(const Arguments& a, std::initializer_list<const char*> others, const char* kind) {
  for (const char* flag : others) {
    if (a.has(flag)) throw UsageError(fmt::format("--{} is for {}", flag, kind));
  }
}

int make_text(const Arguments& a, const std::string& path) {
  only(a, {"samples", "classes", "size", "encoding", "quality"}, "pictures: a folder or FILE.rec");
  MadeTokens what;
  what.tokens = a.integer("tokens", what.tokens, 1, 10'000'000'000);
  what.vocabulary = a.integer("vocabulary", what.vocabulary, 1, 1 << 24);
  what.width = a.choice("type", "uint16", {"uint16", "uint32"}) == "uint16" ? 2 : 4;
  what.seed = static_cast<uint64_t>(a.integer("seed", 1, 0, INT64_MAX));
  const double entropy = make_tokens(what, path);
  note(a, fmt::format("{}: {} tokens; a loss of {:.3f} means knowing only the frequencies", path, what.tokens,
                      entropy));
  return 0;
}

int make_data(const Arguments& a) {
  const std::string path = a.words()[0];
  if (path.ends_with(".bin")) return make_text(a, path);
  only(a, {"tokens", "vocabulary", "type"}, "tokens: FILE.bin");
  MadeImages what;
  what.samples = a.integer("samples", what.samples, 1, 100'000'000);
  what.classes = a.integer("classes", what.classes, 1, 1'000'000);
  const ImageSize size = a.value("size", "256", read_size);
  what.width = size.width;
  what.height = size.height;
  what.format = a.choice("encoding", "jpeg", {"jpeg", "png"}) == "png" ? ImageFormat::png : ImageFormat::jpeg;
  what.quality = static_cast<int>(a.integer("quality", what.quality, 1, 100));
  what.seed = static_cast<uint64_t>(a.integer("seed", 1, 0, INT64_MAX));
  make_images(what, path);
  const StoredData made = StoredImages::open(path).describe();
  note(a, fmt::format("{}: {} samples of {:.0f} bytes on average", path, made.samples, made.bytes));
  return 0;
}

}  // namespace

void register_make_data(Registry<Verb>& registry) {
  registry.add(
      {.name = "make-data",
       .summary = "make a data set of pictures or tokens in storage, for run --data and predict --data",
       .usage = "FOLDER|FILE.rec|FILE.bin [options]",
       .flags = {{"samples", "N", "how many; default 256"},
                 {"classes", "N", "number of classes; default 10"},
                 {"size", "WIDTH[xHEIGHT]", "in pixels; default 256"},
                 {"encoding", "jpeg|png", "default jpeg"},
                 {"quality", "N", "of JPEG, 1 to 100; default 90"},
                 {"tokens", "N", "of FILE.bin: how many; default 1000000"},
                 {"vocabulary", "N", "of FILE.bin: different ones; default 256"},
                 {"type", "uint16|uint32", "of FILE.bin: type of an id; default uint16"},
                 {"seed", "N", "of the noise; default 1"},
                 quiet_flag()},
       .least_words = 1,
       .most_words = 1,
       .run = make_data,
       .details = "A folder gets a subfolder per class with a file per picture; a name that ends in "
                  ".rec becomes one record file (RecordIO), one that ends in .bin raw token ids, in which "
                  "each is mostly followed by one of four. Existing files are refused.\n\nExamples\n"
                  "  tandem make-data images --samples 1000 --size 500x375\n"
                  "  tandem run --model resnet20-cifar --data images --decode-workers 1\n"
                  "  tandem make-data text.bin --vocabulary 64"});
}

}  // namespace tandem::app
