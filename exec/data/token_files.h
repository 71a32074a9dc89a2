// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tokenised text in files: training data of language models.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/graph.h"

namespace tandem::exec {

/// A model's sample of such text.
struct TokenSequence {
  int64_t length = 1;      ///< positions, each with the next token as its label
  int64_t vocabulary = 1;  ///< ids must be below it
  bool operator==(const TokenSequence&) const = default;
};
/// Throws InputError if the model does not predict each next token: another input than one row of tokens, a
/// loss other than one class per position, or layers through which a position sees later ones. O(layers).
TokenSequence token_sequence(const Graph& graph);

/// Raw files of token ids without a header, as written by nanoGPT's prepare.py, and Megatron-LM in its .bin
/// files: unsigned numbers of 2 or 4 bytes, little-endian. They are mapped into memory, so only what is read
/// is loaded; they must not be truncated in the meantime.
///
/// A sample is `length` tokens, and one more for the last label. Samples of a file follow each other without
/// a gap; a remainder at its end is unused, and no sample spans two files.
///
/// Immutable once opened: any thread may read it.
class TokenFiles {
 public:
  /// "tokens:" and names of files, folders (all their .bin files) or patterns (data/train_*.bin), joined by
  /// commas, in order; optionally with "type=uint16" (default) or "type=uint32", and "skip=BYTES" of a header
  /// in every file. "tokens:" may be omitted. Throws InputError naming the file: it cannot be read, is not a
  /// whole number of ids, or is too short for one sample. O(files).
  /// cannot be read, is no whole number of ids, or is too short for one sample. O(files).
  static TokenFiles open(const std::string& name, const TokenSequence& sequence);

  const std::string& name() const { return name_; }
  int64_t tokens() const { return tokens_; }  ///< in all files
  int64_t samples() const { return first_.back(); }
  const TokenSequence& sequence() const { return sequence_; }

  /// The sample trained on `place`-th: each epoch a permutation drawn from (seed, epoch). O(1), without
  /// memory.
  int64_t drawn(int64_t place, uint64_t seed) const;

  /// A sample's tokens, `length` plus one. O(log files).
  class Window {
   public:
    /// Throws InputError with file and position of an id not below the vocabulary.
    int32_t at(int64_t position) const;

   private:
    friend class TokenFiles;
    const TokenFiles* files_ = nullptr;
    std::size_t file_ = 0;
    int64_t first_ = 0;
  };
  Window window(int64_t sample) const;

 private:
  struct File {
    std::string path;
    std::shared_ptr<const uint8_t> bytes;  ///< mapped
    int64_t tokens = 0;
  };
  void add(const std::string& path);

  std::string name_;
  TokenSequence sequence_;
  int64_t width_ = 2, skip_ = 0;  ///< bytes
  int64_t tokens_ = 0;
  std::vector<File> files_;
  std::vector<int64_t> first_{0};  ///< [file]: its first sample; last, the number of samples
};

/// Whether the name of a data set means files of tokens: "tokens:...", or ending in .bin.
bool is_tokens(const std::string& name);

/// A learnable file of tokens: after each token one of four follows, with probabilities 1/2, 1/4, 1/8, 1/8,
/// or with probability 1/16 any. The same arguments give the same file.
struct MadeTokens {
  int64_t tokens = 1'000'000, vocabulary = 256;
  int64_t width = 2;  ///< bytes of an id
  uint64_t seed = 1;
};
/// Writes a new file. Returns the entropy of its tokens' frequencies, in nats: the loss of a model that
/// ignores context. Throws InputError if the file exists or cannot be written.
double make_tokens(const MadeTokens& what, const std::string& path);

}  // namespace tandem::exec
