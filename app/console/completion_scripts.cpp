// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "app/console/manual.h"
#include "base/error.h"

namespace tandem::app {

namespace {

// Where nothing is offered, each shell completes names of files.
constexpr std::string_view kBash = R"(# Completion of tandem for bash: source <(tandem completion bash)
_tandem() {
  mapfile -t COMPREPLY < <("${COMP_WORDS[0]/#\~/$HOME}" completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _tandem tandem
)";

constexpr std::string_view kZsh = R"(#compdef tandem
# Completion of tandem for zsh: source <(tandem completion zsh), after compinit
_tandem() {
  local -a offers
  offers=("${(@f)$("${(Q)words[1]/#\~/$HOME}" completion zsh -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n ${offers[1]} ]]; then _describe -V tandem offers; else _files; fi
}
if [[ ${funcstack[1]} = _tandem ]]; then _tandem "$@"; else compdef _tandem tandem; fi
)";

constexpr std::string_view kFish = R"(# Completion of tandem for fish: tandem completion fish | source
function __tandem_offers
  set -l words (commandline -opc) (commandline -ct)
  set -l offers ($words[1] completion fish -- $words[2..-1] 2>/dev/null)
  if test (count $offers) -gt 0
    printf '%s\n' $offers
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c tandem -f -a '(__tandem_offers)'
)";

}  // namespace

const std::vector<std::string>& completed_shells() {
  static const std::vector<std::string> all = {"bash", "zsh", "fish"};
  return all;
}

std::string completion_script(std::string_view shell) {
  static const std::map<std::string_view, std::string_view> all = {
      {"bash", kBash}, {"zsh", kZsh}, {"fish", kFish}};
  const auto found = all.find(shell);
  TANDEM_CHECK(found != all.end());
  return std::string(found->second);
}

}  // namespace tandem::app
