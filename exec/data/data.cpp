// SPDX-License-Identifier: Apache-2.0
#include "exec/data/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <numeric>

#include "base/data.h"
#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "exec/data/generated_data.h"

namespace tandem::exec {

namespace {

/// Parses a line "v, v, ..., label".
void read_line(const std::string& line, const Place& place, std::size_t columns, Dataset& data) {
  std::size_t column = 0;
  const char* at = line.data();
  const char* end = at + line.size();
  while (at < end) {
    float value = 0;
    const auto r = std::from_chars(at, end, value);
    if (r.ec != std::errc{} || !std::isfinite(value) || (r.ptr != end && *r.ptr != ','))
      throw InputError(
          place, fmt::format("\"{}\" is not a number", printable(std::string(at, std::find(at, end, ',')))));
    at = r.ptr == end ? end : r.ptr + 1;
    if (++column < columns) {
      data.values.push_back(value);
      continue;
    }
    if (column > columns) throw InputError(place, fmt::format("more than {} columns", columns));
    const auto label = static_cast<int32_t>(value);
    if (static_cast<float>(label) != value || label < 0 || label > 1'000'000)
      throw InputError(place, "the last column is the class: a whole number from 0 on");
    data.labels.push_back(label);
    data.classes = std::max<int64_t>(data.classes, label + 1);
  }
  if (column < columns)
    throw InputError(place, fmt::format("{} columns where the first line has {}", column, columns));
}

/// The files if all names end in .csv; else one name.
std::vector<std::string> csv_names(const std::string& text) {
  std::vector<std::string> names = split(text, ',');
  const bool files =
      std::all_of(names.begin(), names.end(), [](const std::string& n) { return n.ends_with(".csv"); });
  return files ? names : std::vector{text};
}

/// Adds the samples of a file, whose lines have `columns` numbers, or 0: as many as the first line. Returns
/// the number of columns.
Place read_csv(const std::string& name, std::size_t& columns, Dataset& all) {
  const std::string path = name.ends_with(".csv") ? name : data_root() + "/exec/data/" + name + ".csv";
  std::ifstream file(path);
  Place place;
  place.file = std::make_shared<const std::string>(path);
  if (!file)
    throw InputError(
        fmt::format("no data set \"{}\": file names ending in .csv, joined by commas, or: digits, teacher",
                    printable(name)));
  const int64_t before = all.samples();
  for (std::string line; std::getline(file, line);) {
    ++place.line;
    if (line.empty() || line[0] == '#') continue;
    if (columns == 0) columns = static_cast<std::size_t>(std::count(line.begin(), line.end(), ',')) + 1;
    if (columns < 2) throw InputError(place, "at least one value and a class are needed in a line");
    read_line(line, place, columns, all);
  }
  if (all.samples() == before) throw InputError(place, "the data set holds no samples");
  return place;
}

}  // namespace

Dataset load_dataset(const std::string& name_or_file, bool test) {
  if (name_or_file == "teacher" || name_or_file.starts_with("teacher:"))
    return teacher_data(
        Options(teacher_options(), parse_selection(name_or_file, {}).settings, "data set teacher", {}), test);
  Dataset all, out;
  std::size_t columns = 0;
  Place place;
  for (const std::string& name : csv_names(name_or_file)) place = read_csv(name, columns, all);
  const auto size = static_cast<int64_t>(columns) - 1;
  // Scales values to 0 .. 1 by the largest of all samples.
  const float top = *std::max_element(all.values.begin(), all.values.end());
  out.name = name_or_file;
  out.classes = all.classes;
  out.shape = {size};
  for (int64_t i = 0; i < all.samples(); ++i) {
    if ((i % 5 == 4) != test) continue;
    out.labels.push_back(all.labels[static_cast<std::size_t>(i)]);
    for (int64_t k = 0; k < size; ++k)
      out.values.push_back(all.values[static_cast<std::size_t>(i * size + k)] / (top > 0 ? top : 1));
  }
  if (out.labels.empty()) throw InputError(place, "the data set needs at least five samples");
  return out;
}

std::vector<int64_t> SampleOrder::batch(const SampleShare& share, int64_t iteration) {
  std::vector<int64_t> out;
  for (int64_t k = 0; k < share.samples; ++k) {
    // The samples of one iteration are dealt out worker by worker; epochs follow each other without a gap.
    const int64_t place = iteration * share.step + share.first + k;
    if (place / samples_ != epoch_) shuffle(place / samples_);
    out.push_back(order_[static_cast<std::size_t>(place % samples_)]);
  }
  return out;
}

void SampleOrder::shuffle(int64_t epoch) {
  epoch_ = epoch;
  order_.resize(static_cast<std::size_t>(samples_));
  std::iota(order_.begin(), order_.end(), 0);
  for (int64_t i = samples_ - 1; i > 0; --i) {
    const auto j =
        static_cast<int64_t>(draw_bits(seed_, static_cast<uint64_t>(epoch), static_cast<uint64_t>(i)) %
                             static_cast<uint64_t>(i + 1));
    std::swap(order_[static_cast<std::size_t>(i)], order_[static_cast<std::size_t>(j)]);
  }
}

std::vector<int64_t> batch_samples(int64_t samples, uint64_t seed, const SampleShare& share,
                                   int64_t iteration) {
  thread_local SampleOrder known(0, 0);  // a thread asks for the same epoch many times
  if (!known.is_of(samples, seed)) known = SampleOrder(samples, seed);
  return known.batch(share, iteration);
}

}  // namespace tandem::exec
