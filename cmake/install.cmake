# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where, and the package that `cpack` makes of it. The program finds its data beside itself
# (base/data.h), so an installed tree may be moved as a whole.
set(data ${CMAKE_INSTALL_DATAROOTDIR}/tandem)

install(TARGETS tandem RUNTIME)
if(TARGET tandem_cuda)  # where it was built; the program looks for it there (exec/device/backends/cuda.cpp)
  install(PROGRAMS $<TARGET_FILE:tandem_cuda> DESTINATION lib/tandem OPTIONAL)
endif()
install(TARGETS tandem_library EXPORT tandemTargets LIBRARY)
install(FILES include/tandem/tandem.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem)
install(EXPORT tandemTargets NAMESPACE tandem:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tandemConfigVersion.cmake COMPATIBILITY SameMinorVersion)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/tandemConfig.cmake CONTENT
  "include(\${CMAKE_CURRENT_LIST_DIR}/tandemTargets.cmake)\n" @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tandemConfig.cmake ${CMAKE_BINARY_DIR}/tandemConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
foreach(folder IN LISTS TANDEM_DATA_FOLDERS ITEMS exec/data plots)
  install(DIRECTORY ${folder}/ DESTINATION ${data}/${folder}
    FILES_MATCHING PATTERN *.json PATTERN *.csv PATTERN *.gp)
endforeach()
install(DIRECTORY page/ DESTINATION ${data}/page FILES_MATCHING PATTERN *.html PATTERN *.css PATTERN *.js)
install(FILES README.md CHANGELOG.md LICENSE CITATION.cff DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)

# The manual page and completions are what the program says of itself.
install(CODE "
  set(root \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
  function(says file)  # what the program prints with the arguments after it
    get_filename_component(folder \"\${root}/\${file}\" DIRECTORY)
    file(MAKE_DIRECTORY \${folder})
    execute_process(COMMAND \"$<TARGET_FILE:tandem>\" \${ARGN}
      OUTPUT_FILE \"\${root}/\${file}\" COMMAND_ERROR_IS_FATAL ANY)
    message(STATUS \"Installing: \${root}/\${file}\")
  endfunction()
  says(${CMAKE_INSTALL_MANDIR}/man1/tandem.1 help --format man)
  says(${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions/tandem completion bash)
  says(${CMAKE_INSTALL_DATAROOTDIR}/zsh/vendor-completions/_tandem completion zsh)
  says(${CMAKE_INSTALL_DATAROOTDIR}/fish/vendor_completions.d/tandem.fish completion fish)
")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "The Tandem developers")
set(CPACK_PACKAGE_CONTACT "The Tandem developers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "predicts and executes distributed training of neural networks")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # reads which libraries the program needs, and of which version
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "gnuplot-nox, graphviz, fonts-dejavu-core")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
include(CPack)
