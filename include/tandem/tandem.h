// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tandem as a library: ask how fast a model trains on a machine, how stale its gradients are and how much
// memory each device needs. This is the only header that an installation has; it needs nothing but C++20.
//
//   tandem::Question question({{"model", "vgg16"}, {"system", "v100-pcie-8x"}, {"devices", "8"}});
//   tandem::Report report = tandem::predict(question)[0];
//   report.samples_per_second();
//
// Any thread may call any function at any time, also with the same objects, which do not change once they are
// made. Nothing is printed, no signal is handled, and only Tandem's data and the files that a question names
// are read. The same question gives the same report, byte for byte, whatever else runs at the time. All
// functions throw Error for bad input and std::bad_alloc; anything else is a bug.
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tandem {

namespace answers {
struct Question;
}
namespace schemes {
struct Report;
}

/// Bad input: what is wrong, what is valid and the nearest name, with the line if it comes from a document.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The folder of models, systems, presets and profiles (share/tandem of an installation, or the source tree)
/// for the whole process. Unset: $TANDEM_DATA, else the folder installed with the library. Call it first:
/// throws Error once data was read, or if the folder has no models.
void set_data_folder(const std::string& folder);

/// What is asked. A value that owns all it names: copies share their contents and are cheap; questions are
/// equal if their hashes are. Files are read when it is made and not again, except a "profile", which is read
/// on the first prediction.
class Question {
 public:
  using Options = std::vector<std::pair<std::string, std::string>>;
  /// The options of `tandem predict --help` by their long names, in any order. A repeatable option may occur
  /// several times ({"set", "nodes=4"}); a switch has an empty value. "model" and "system" are required:
  /// names, files or whole JSON documents. Throws Error. Cost: milliseconds, tens of them for large models.
  explicit Question(const Options& options);
  /// A "tandem-question-1" document, or a "tandem-reports-2" document, which contains the question that it
  /// answers. `name` is what errors call the text. Throws Error.
  static Question from_json(const std::string& text, const std::string& name = "question");
  /// The same question with some options changed. An empty value removes an option, as "false" does for a
  /// switch. Model and machine are read again only if they change. Throws Error.
  Question with(const Options& changes) const;

  /// Reads back as an equal question. O(length).
  std::string to_json() const;
  /// Of the options and of the contents that the named files had when it was made: a key to cache answers of
  /// one version of Tandem. The order of options, and options set to their defaults, make no difference.
  /// O(length).
  uint64_t hash() const;
  /// The device counts that it asks about, at least one.
  std::vector<int64_t> devices() const;
  bool operator==(const Question& other) const { return hash() == other.hash(); }

 private:
  friend class Door;
  explicit Question(std::shared_ptr<const answers::Question> inside) : inside_(std::move(inside)) {}
  std::shared_ptr<const answers::Question> inside_;
};

/// The answer on one number of devices. A value; copies share what they hold.
class Report {
 public:
  int64_t devices() const;
  bool fits() const;  ///< false: the model does not fit, and there is no rate
  double samples_per_second() const;
  double low() const, high() const;  ///< of the 90 % interval of the rate
  double staleness() const;          ///< mean, in versions of the parameters
  double speedup() const;            ///< over the fewest devices that hold the model
  int64_t memory_bytes() const;      ///< of a device at its peak
  int64_t memory_capacity() const;   ///< that a device can use; 0: unknown
  /// The resource of which 1 % more helps most: "compute", "links.pcie.bandwidth", "network.bandwidth" ...
  /// Empty unless Depth::full was asked for.
  std::string bottleneck() const;

 private:
  friend class Door;
  explicit Report(std::shared_ptr<const schemes::Report> inside) : inside_(std::move(inside)) {}
  std::shared_ptr<const schemes::Report> inside_;
};

/// How much of an answer is computed; each depth includes those before it.
enum class Depth : uint8_t {
  rate,    ///< the rate, its interval and staleness
  report,  ///< memory, speed-up, goodput and time to a target
  full,    ///< the bottleneck: three to ten further predictions; where nothing fits, what would help
};

/// One report per device count of the question, in order. Cost on one core: milliseconds for a few devices,
/// seconds for thousands, times the predictions of Depth. Throws Error: the machine has too few devices, or
/// the scheme cannot run there.
std::vector<Report> predict(const Question& question, Depth depth = Depth::full);

/// The "tandem-reports-2" document (docs/formats/report.md): the bytes that `tandem predict --format json
/// --reproducible --no-timeline` writes for the same question.
std::string to_json(const std::vector<Report>& reports);

/// Tandem's version: "0.3.0".
std::string version();

}  // namespace tandem
