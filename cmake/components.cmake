# SPDX-License-Identifier: Apache-2.0
# tandem_components(<target> <registry-type> <header> <folder> <word>...)
#
# Makes the list of words the one place where a component is named: each word stands for the file
# <folder>/<word>.cpp, which defines
#     namespace tandem::<room> { void register_<word>(Registry<registry-type>& registry); }
# and a generated file defines
#     const Registry<registry-type>& <folder name>_registry();
# that calls them all, in list order. A word named twice, or without a file, fails at configure time.
function(tandem_components target type header folder)
  get_filename_component(group ${folder} NAME)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE room)
  set(declarations "")
  set(calls "")
  set(seen "")
  foreach(word IN LISTS ARGN)
    if(word IN_LIST seen)
      message(FATAL_ERROR "${target}: component '${word}' is listed twice in ${folder}")
    endif()
    list(APPEND seen ${word})
    set(file ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/${word}.cpp)
    if(NOT EXISTS ${file})
      message(FATAL_ERROR "${target}: component '${word}' has no file ${file}")
    endif()
    target_sources(${target} PRIVATE ${file})
    string(APPEND declarations "void register_${word}(Registry<${type}>&);\n")
    string(APPEND calls "    register_${word}(r);\n")
  endforeach()
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/${group}_registry.cpp)
  file(CONFIGURE OUTPUT ${generated} @ONLY CONTENT
"// Generated from the component list in ${CMAKE_CURRENT_SOURCE_DIR}/CMakeLists.txt.
#include \"${header}\"
namespace tandem::@room@ {
@declarations@
const Registry<@type@>& ${group}_registry() {
  static const Registry<@type@> registry = [] {
    Registry<@type@> r(\"${group}\");
@calls@    return r;
  }();
  return registry;
}
}  // namespace tandem::@room@
")
  target_sources(${target} PRIVATE ${generated})
endfunction()
