// SPDX-License-Identifier: Apache-2.0
#pragma once
// The types of models that Hugging Face Transformers knows, as tables have them, and the fields of a config
// of such a type.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/expression.h"
#include "base/json.h"

namespace tandem::models {

/// How one type is read: its row of models/import/hf/types, and what the library says of it (classes.json).
struct HfType {
  std::string name;               ///< "llama"
  std::string reads;              ///< the class of the model: "LlamaForCausalLM"
  const Json* row = nullptr;      ///< the type's row in the table
  const Json* library = nullptr;  ///< null: the library does not have the type
  bool headless = false;          ///< the bare class: no output layer
};

/// From "architectures" or "model_type". Throws InputError for unsupported types, with the reason or the
/// supported types.
HfType hf_type_of(const Json& config);
/// The type of that name, such as a text model inside another one.
HfType hf_type_named(const std::string& name, const Json& where);

/// Row of a type; null: none.
const Json* hf_row(const std::string& name);
/// The row that this one is "like"; null: none.
const Json* hf_like(const Json& row);
/// From the type's row, or from rows that it is like; null: none has the key.
const Json* hf_of_row(const HfType& type, const char* key);

/// Fields of a config under the type's names. Missing fields have the class's defaults. A *spec* in a row
/// says how a value is made of them: a number, true, "=expression" of fields, or a list of these, of which
/// the first whose fields exist and are not null is used. For one thread at a time.
class HfFields {
 public:
  HfFields(const Json& config, const HfType& type);

  /// Nothing if a field in it is null, or missing without a default.
  std::optional<int64_t> whole(const Json& spec) const { return whole(spec, variables_); }
  std::optional<int64_t> whole(const Json& spec, const Variables& variables) const;
  /// As above within [low, high]; else an InputError says what is missing or out of range.
  int64_t whole(const Json& spec, int64_t low, int64_t high) const;
  /// "@field": its text; any other text: itself.
  std::string text(const Json& spec) const;
  /// Refuses a field that is given another value than those of a table {"field": [values]}, where a value may
  /// be an expression.
  void only(const Json& table) const;
  /// Fields that this type has and that change nothing.
  void ignore(const Json& names) const;
  /// The field, or null: of the config, then of the class. Nested ones as "outer__inner",
  /// entries of a list as "list__0".
  const Json* find(std::string_view name) const;
  const Variables& variables() const { return variables_; }
  const Json& config() const { return config_; }
  /// Rules as [expression, words]: where one is 0 the config is refused, since then those words are true of
  /// it.
  void must(const Json& rules) const;
  /// Refuses fields that were not asked for, are not as the class has them and could change the model.
  void finish() const;

 private:
  void add(const std::string& name, const Json& value);
  void add_entries(const std::string& name, const Json& list);
  void read_config(const Json& object, const std::string& prefix);
  void read_per_layer();
  const Json& config_;
  const HfType& type_;
  std::map<std::string, const Json*, std::less<>> values_;  ///< by the type's own names
  std::map<std::string, std::string, std::less<>> aliases_;
  std::set<std::string, std::less<>> given_;  ///< by the config
  mutable std::set<std::string, std::less<>> asked_;
  Variables variables_;
};

}  // namespace tandem::models
