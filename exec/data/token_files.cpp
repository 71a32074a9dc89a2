// SPDX-License-Identifier: Apache-2.0
#include "exec/data/token_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <glob.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/options.h"
#include "base/random.h"
#include "base/text.h"

namespace tandem::exec {

namespace {

constexpr std::string_view kTokens = "tokens:";

[[noreturn]] void refuse_file(const std::string& path, const std::string& why) {
  throw InputError(fmt::format("{}: {}", printable(path), why));
}

/// Files that match a shell pattern, in the order of their names.
std::vector<std::string> matching(const std::string& pattern) {
  glob_t found{};
  const int status = glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<std::string> out;
  if (status == 0) out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  if (out.empty()) refuse_file(pattern, "no file has such a name");
  return out;
}

std::vector<std::string> in_folder(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end;
       at.increment(failed)) {
    if (at->path().extension() == ".bin") out.push_back(at->path().string());
  }
  if (failed) refuse_file(folder, failed.message());
  if (out.empty()) refuse_file(folder, "the folder has no file with a name that ends in .bin");
  std::sort(out.begin(), out.end());
  return out;
}

const std::vector<OptionSpec>& token_options() {
  using Type = OptionSpec::Type;
  static const std::vector<OptionSpec> options = {
      {"type", Type::choice, "uint16", "of an id", "uint16|uint32"},
      {"skip", Type::count, "0", "bytes of a header in front of every file", "", 0, 1 << 30}};
  return options;
}

std::vector<std::string> files_of(const std::string& name) {
  if (std::filesystem::is_directory(name)) return in_folder(name);
  if (name.find_first_of("*?[") != std::string::npos && !std::filesystem::exists(name)) return matching(name);
  return {name};
}

/// Half of the bits that count `n` values, rounded up.
uint32_t half_bits(int64_t n) {
  return (static_cast<uint32_t>(std::bit_width(static_cast<uint64_t>(n - 1))) + 1) / 2;
}

/// A permutation of 0 .. n - 1: a Feistel network of four rounds over the next power of 4, walked until it
/// comes out below n (Black and Rogaway 2002, "Ciphers with Arbitrary Finite Domains").
int64_t permuted(int64_t x, int64_t n, uint64_t seed, uint64_t epoch) {
  const uint32_t bits = half_bits(n);
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  auto at = static_cast<uint64_t>(x);
  do {
    uint64_t left = at >> bits, right = at & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t next = left ^ (draw_bits(seed, 0x70c, epoch, round, right) & mask);
      left = std::exchange(right, next);
    }
    at = left << bits | right;
  } while (at >= static_cast<uint64_t>(n));
  return static_cast<int64_t>(at);
}

}  // namespace

TokenSequence token_sequence(const Graph& graph) {
  const auto fail = [&](const std::string& why) {
    throw InputError(
        fmt::format("{} does not learn to tell each next token of a text: {}", graph.name(), why));
  };
  TokenSequence out{0, INT64_MAX};
  int64_t losses = 0;
  for (const Layer& layer : graph.layers()) {
    if (layer.type == nullptr) {
      if (out.length > 0) fail("it has more than one input");
      if (layer.output.size() != 1) fail(fmt::format("its input is {}", to_text(layer.output)));
      out.length = layer.output[0];
      continue;
    }
    const std::string_view type = layer.type->name;
    const Attributes attributes(layer.attributes);
    if (type == "attention" && !attributes.boolean("causal", false))
      fail(fmt::format("in layer \"{}\" a position sees later ones", layer.name));
    if (attributes.boolean("bidirectional", false))
      fail(fmt::format("layer \"{}\" reads the text from its end, too", layer.name));
    if (type == "embedding") {
      const Parameter& table = layer.parameters.empty() ? layer.frozen.at(0) : layer.parameters[0];
      out.vocabulary = std::min(out.vocabulary, table.elements / layer.output.back());
    }
    if (!layer.output.empty()) continue;
    ++losses;
    const Shape& judged = graph.layers()[layer.inputs.at(0)].output;
    if (type != "cross-entropy" || judged.size() != 2 || judged[0] != out.length)
      fail(fmt::format("its loss \"{}\" does not judge one class for each of {} tokens", layer.name,
                       out.length));
    out.vocabulary = std::min(out.vocabulary, judged[1]);
  }
  if (losses != 1) fail(fmt::format("it has {} losses", losses));
  if (out.vocabulary == INT64_MAX) fail("it takes no tokens");
  return out;
}

TokenFiles TokenFiles::open(const std::string& name, const TokenSequence& sequence) {
  static_assert(std::endian::native == std::endian::little);
  TokenFiles out;
  out.name_ = name;
  out.sequence_ = sequence;
  std::vector<std::string> names;
  std::vector<std::pair<std::string, std::string>> settings;
  const std::string list = name.starts_with(kTokens) ? name.substr(kTokens.size()) : name;
  for (const std::string& part : split(list, ',')) {
    if (part.empty()) continue;
    const auto equals = part.find('=');
    if (equals == std::string::npos || part.find('/') < equals)
      names.push_back(part);
    else
      settings.emplace_back(part.substr(0, equals), part.substr(equals + 1));
  }
  const Options options(token_options(), settings, "data set tokens", {});
  out.width_ = options.text("type") == "uint16" ? 2 : 4;
  out.skip_ = options.count("skip");
  for (const std::string& one : names) {
    for (const std::string& path : files_of(one)) out.add(path);
  }
  if (out.files_.empty())
    throw InputError(fmt::format("{}: names no file: tokens:FILE.bin[,FILE.bin...][,type=uint16|uint32]",
                                 printable(name)));
  return out;
}

void TokenFiles::add(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) refuse_file(path, std::strerror(errno));
  struct stat about {};
  const bool regular = fstat(file, &about) == 0 && S_ISREG(about.st_mode);
  const int64_t size = regular ? about.st_size : 0, held = size - skip_;
  void* mapped =
      held > 0 ? mmap(nullptr, static_cast<std::size_t>(size), PROT_READ, MAP_SHARED, file, 0) : nullptr;
  const int why = errno;
  ::close(file);
  if (!regular) refuse_file(path, "is no file");
  if (mapped == MAP_FAILED) refuse_file(path, std::strerror(why));
  File f;
  f.path = path;
  f.bytes = {static_cast<const uint8_t*>(mapped), [size](const uint8_t* at) {
               if (at != nullptr) munmap(const_cast<uint8_t*>(at), static_cast<std::size_t>(size));
             }};
  if (held > 0 && held % width_ != 0)
    refuse_file(path,
                fmt::format("{} bytes{} are no whole number of ids of {} bytes (type={}): another type, or a "
                            "header to skip (skip=BYTES)?",
                            held, skip_ > 0 ? fmt::format(" after {}", skip_) : "", width_,
                            width_ == 2 ? "uint16" : "uint32"));
  f.tokens = std::max<int64_t>(0, held) / width_;
  if (f.tokens < sequence_.length + 1)
    refuse_file(path,
                fmt::format("{} tokens: a sample of this model takes {}, and one more for the last label",
                            f.tokens, sequence_.length));
  tokens_ += f.tokens;
  first_.push_back(first_.back() + (f.tokens - 1) / sequence_.length);
  files_.push_back(std::move(f));
}

int64_t TokenFiles::drawn(int64_t place, uint64_t seed) const {
  return permuted(place % samples(), samples(), seed, static_cast<uint64_t>(place / samples()));
}

TokenFiles::Window TokenFiles::window(int64_t sample) const {
  Window out;
  out.files_ = this;
  out.file_ =
      static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end(), sample) - first_.begin()) - 1;
  out.first_ = (sample - first_[out.file_]) * sequence_.length;
  return out;
}

int32_t TokenFiles::Window::at(int64_t position) const {
  const File& file = files_->files_[file_];
  const int64_t at = first_ + position, byte = files_->skip_ + at * files_->width_;
  uint32_t id = 0;
  std::memcpy(&id, file.bytes.get() + byte, static_cast<std::size_t>(files_->width_));
  if (id < static_cast<uint64_t>(files_->sequence_.vocabulary)) return static_cast<int32_t>(id);
  refuse_file(file.path, fmt::format("token {} (byte {}) is {}: the model's vocabulary has {}", at, byte, id,
                                     files_->sequence_.vocabulary));
}

bool is_tokens(const std::string& name) { return name.starts_with(kTokens) || name.ends_with(".bin"); }

double make_tokens(const MadeTokens& what, const std::string& path) {
  if (std::filesystem::exists(path)) refuse_file(path, "exists already");
  if (what.width == 2 && what.vocabulary > 65536)
    throw InputError(fmt::format("{} ids do not fit uint16: --type uint32", what.vocabulary));
  const std::string making = path + ".part";
  std::ofstream file(making, std::ios::binary);
  std::vector<int64_t> seen(static_cast<std::size_t>(what.vocabulary));
  const auto all = static_cast<uint64_t>(what.vocabulary);
  uint64_t token = 0;
  for (int64_t i = 0; i < what.tokens; ++i) {
    const uint64_t bits = draw_bits(what.seed, 0x70ceULL, static_cast<uint64_t>(i));
    const uint64_t which = std::min<uint64_t>(3, static_cast<uint64_t>(std::countr_zero(bits | 8)));
    token = bits >> 60 == 0 ? mix64(bits) % all : draw_bits(what.seed, 0x57e9ULL, token, which) % all;
    ++seen[static_cast<std::size_t>(token)];
    const auto id = static_cast<uint32_t>(token);
    file.write(reinterpret_cast<const char*>(&id), what.width);
  }
  file.close();
  std::error_code failed;
  if (file) std::filesystem::rename(making, path, failed);
  if (!file || failed) {
    std::filesystem::remove(making, failed);
    refuse_file(path, "cannot be written");
  }
  double entropy = 0;
  for (const int64_t n : seen) {
    const double p = static_cast<double>(n) / static_cast<double>(what.tokens);
    if (n > 0) entropy -= p * std::log(p);
  }
  return entropy;
}

}  // namespace tandem::exec
