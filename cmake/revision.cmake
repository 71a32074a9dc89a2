# SPDX-License-Identifier: Apache-2.0
# Run at every build: writes OUT, a header with the commit that SOURCE is at, where that changed. Empty in a source tree
# that is not a repository of its own.
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD RESULT_VARIABLE failed OUTPUT_VARIABLE commit
  ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(failed OR NOT EXISTS ${SOURCE}/.git)
  set(commit "")
endif()
set(text "#define TANDEM_COMMIT \"${commit}\"\n")
set(old "")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT text STREQUAL old)
  file(WRITE ${OUT} "${text}")
endif()
