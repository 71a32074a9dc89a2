// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs the built program as a user does.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/child.h"
#include "base/json.h"

namespace tandem::tests {

/// For children that hang: others may load the machine as much as they like.
constexpr std::chrono::hours kPatience{1};

inline ChildResult tool(std::vector<std::string> words, const std::string& input = "") {
  words.insert(words.begin(), TANDEM_BINARY);
  return run_child(words, input, "", kPatience);
}

/// Through sh, for redirections; `$0` of the script is the program.
inline ChildResult shell(const std::string& script) {
  return run_child({"sh", "-c", script, TANDEM_BINARY}, "", "", kPatience);
}

/// A folder of its own that vanishes with it.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tandem-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(file(name), std::ios::binary) << content;
    return file(name);
  }

 private:
  std::filesystem::path path_;
};

/// A small, fast question.
inline std::vector<std::string> small_predict(std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"predict",   "--model",   "lenet5", "--system",
                                    "dgx1-v100", "--devices", "1,2"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The last report of what predict or run wrote with --format json.
inline Json last_report(const std::string& document) {
  return Json::parse(document, "stdout").at("reports").items().back();
}

inline std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace tandem::tests
