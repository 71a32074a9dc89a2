// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tandem as a library: ask how fast a model trains on a machine, how stale its gradients are and how much
// memory each device needs. This is the only header that an installation has; it needs nothing but C++20.
//
//   tandem::Question question({{"model", "vgg16"}, {"system", "v100-pcie-8x"}, {"devices", "8"}});
//   tandem::Report report = tandem::predict(question)[0];
//   report.samples_per_second();
//
// Every function may be called by any thread at any time, several at once, with the same objects too: objects
// do not change once they are made. Nothing is printed, no signal is handled, no file is read but those that
// a question names and Tandem's data. The same question gives the same report, byte by byte, whatever runs
// beside it. All functions throw Error for bad input and std::bad_alloc; others are bugs.
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

/// Bad input: what is wrong, what is valid, the nearest name; with its place where it stands in a document.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Where models, systems, presets and profiles lie (share/tandem of an installation, or the source tree), for
/// the whole process. Unset: $TANDEM_DATA, else beside the library. Call it before anything else: an Error
/// once data was read, or where no models are in the folder.
void set_data_folder(const std::string& folder);

/// What is asked. A value: copies share what they hold and are cheap; equal questions are those with equal
/// hashes. It owns all that it names. Files are read when it is made, and not again; a "profile" is read when
/// it is first asked.
class Question {
 public:
  using Options = std::vector<std::pair<std::string, std::string>>;
  /// The options of `tandem predict --help` by their long names, in any order; a repeatable one may stand
  /// several times ({"set", "nodes=4"}), a switch has an empty value. "model" and "system" must be there;
  /// they are names, files or whole JSON documents. Throws Error. Cost: milliseconds, with large models tens
  /// of them.
  explicit Question(const Options& options);
  /// A "tandem-question-1" document, or reports ("tandem-reports-2"), which carry the question that they
  /// answer. `name` is what errors call the text. Throws Error.
  static Question from_json(const std::string& text, const std::string& name = "question");
  /// The same question with other values of some options; an empty value takes an option away, as "false"
  /// does a switch. Model and machine are read again only where they change. Throws Error.
  Question with(const Options& changes) const;

  /// Reads back as an equal question. O(its length).
  std::string to_json() const;
  /// Of what is asked and of the contents that the files it names had when it was made: a key for answers of
  /// one version of Tandem. The order of options and defaults that are said do not matter. O(its length).
  uint64_t hash() const;
  /// Device counts that it asks about, at least one.
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
  int64_t memory_capacity() const;   ///< of a device, as far as it can be used; 0: unknown
  /// "compute", "links.pcie.bandwidth", "network.bandwidth" ...: of what 1 % more gives most. Empty unless it
  /// was asked for.
  std::string bottleneck() const;

 private:
  friend class Door;
  explicit Report(std::shared_ptr<const schemes::Report> inside) : inside_(std::move(inside)) {}
  std::shared_ptr<const schemes::Report> inside_;
};

/// How much of an answer is wanted; each holds what those before it do.
enum class Depth : uint8_t {
  rate,    ///< the rate, its interval and staleness
  report,  ///< memory, speed-up, goodput and time to a target
  full,    ///< the bottleneck: some three to ten more predictions
};

/// A report for each of the question's device counts, in order. Cost: see Depth; on one core some
/// milliseconds for a few devices, seconds for thousands. Throws Error: counts that the machine lacks, a
/// scheme that cannot run there.
std::vector<Report> predict(const Question& question, Depth depth = Depth::full);

/// The "tandem-reports-2" document (docs/formats/report.md): the bytes that `tandem predict --format json
/// --reproducible --no-timeline` writes for the same question.
std::string to_json(const std::vector<Report>& reports);

/// Tandem's version: "0.3.0".
std::string version();

}  // namespace tandem
