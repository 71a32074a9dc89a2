# SPDX-License-Identifier: Apache-2.0
# tandem_kernels(<variable>): the .cu files of exec/device/cuda. With TANDEM_QUICK those of a line below are one file, as
# each alone is mostly headers, which nvcc reads three times: names that a file keeps to itself are then the line's.
function(tandem_kernels variable)
  set(lines
    "attention elementwise half mirror"
    "basic batch_norm embedding"
    "pool fp8 softmax"
    "row_norm fallback product_attention recurrent"
    "strided experts"
    "compression powersgd"
    "log_sums rotary tensor_attention"
    "lamb adafactor adamw_8bit")
  set(out "")
  foreach(line IN LISTS lines)
    string(REPLACE " " ";" words ${line})
    if(TANDEM_QUICK)
      string(REPLACE " " "_" joined ${line})
      list(TRANSFORM words REPLACE "(.+)" "#include \"exec/device/cuda/\\1.cu\"")
      list(JOIN words "\n" text)
      file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/kernels/${joined}.cu CONTENT "${text}\n" @ONLY)
      list(APPEND out ${CMAKE_CURRENT_BINARY_DIR}/kernels/${joined}.cu)
    else()
      list(TRANSFORM words REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/exec/device/cuda/\\1.cu")
      list(APPEND out ${words})
    endif()
  endforeach()
  set(${variable} ${out} PARENT_SCOPE)
endfunction()
