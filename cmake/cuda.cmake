# SPDX-License-Identifier: Apache-2.0
# The CUDA plugin, libtandem_cuda.so: built where nvcc, cuDNN and NCCL's header are found, absent elsewhere. The
# program itself never links CUDA. Included by exec/CMakeLists.txt; sets TANDEM_CUDA_BUILT.
set(TANDEM_CUDA AUTO CACHE STRING "Build the CUDA plugin: AUTO, ON or OFF")
set(TANDEM_NVIDIA_WHEELS "" CACHE PATH "<site-packages>/nvidia of Python wheels that hold cuDNN and NCCL")
set(TANDEM_CUDA_ARCHITECTURES "" CACHE STRING "Chips that the plugin is built for, as CMAKE_CUDA_ARCHITECTURES")
set(TANDEM_CUDA_BUILT OFF)

macro(tandem_cuda_unavailable why)
  if(TANDEM_CUDA STREQUAL "ON")
    message(FATAL_ERROR "The CUDA plugin is wanted (TANDEM_CUDA=ON): ${why}")
  endif()
  message(STATUS "No CUDA plugin: ${why}")
endmacro()

add_custom_target(plugins)  # what the launcher builds when it is asked for a GPU; nothing where there is none

# What both sides of the plugin's door must agree on: the headers that cross it, and the compiler.
set(headers exec/device/backend.h exec/lower/call.h exec/device/cuda/plugin.h base/precision.h base/registry.h models/layers/kernel.h
  schemes/program/program.h)
set(text "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${PROJECT_VERSION}")
foreach(header IN LISTS headers)
  file(SHA256 ${CMAKE_SOURCE_DIR}/${header} hash)
  string(APPEND text " ${hash}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${header})
endforeach()
string(SHA256 hash "${text}")
string(SUBSTRING ${hash} 0 12 hash)
string(MAKE_C_IDENTIFIER "${CMAKE_CXX_COMPILER_ID}" compiler)
set(TANDEM_CUDA_ABI "1-${hash}-${compiler}" CACHE INTERNAL "What both sides of the plugin agree on")

if(NOT TANDEM_CUDA STREQUAL "OFF" AND NOT TANDEM_SANITIZE AND NOT TANDEM_FUZZ)
  find_program(TANDEM_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_PATH ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES bin)
  if(NOT TANDEM_NVCC)
    tandem_cuda_unavailable("no nvcc (CUDACXX=/usr/local/cuda/bin/nvcc names one off the path)")
  else()
    set(ENV{CUDACXX} ${TANDEM_NVCC})  # where check_language() looks: a compiler that fails is then no error
    include(CheckLanguage)
    check_language(CUDA)
    if(NOT CMAKE_CUDA_COMPILER)
      tandem_cuda_unavailable("${TANDEM_NVCC} does not compile")
    else()
      enable_language(CUDA)
      find_package(CUDAToolkit)
      # Chips of one generation run its first member's code; PTX lets later generations in. CUDA 13 has dropped
      # those before 7.5; 12.8 was the first to know 10.0.
      if(TANDEM_CUDA_ARCHITECTURES)
        set(CMAKE_CUDA_ARCHITECTURES ${TANDEM_CUDA_ARCHITECTURES})
      elseif(TANDEM_QUICK)  # one compilation in place of five: the chips that are here, or one that stands for all
        find_program(TANDEM_NVIDIA_SMI nvidia-smi)
        if(TANDEM_NVIDIA_SMI AND CMAKE_VERSION VERSION_GREATER_EQUAL 3.24)
          set(CMAKE_CUDA_ARCHITECTURES native)
        else()
          set(CMAKE_CUDA_ARCHITECTURES 80)
        endif()
      elseif(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
        set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90-real 100)
      elseif(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
        set(CMAKE_CUDA_ARCHITECTURES 60-real 70-real 80-real 90-real 100)
      else()
        set(CMAKE_CUDA_ARCHITECTURES 60-real 70-real 80-real 90)
      endif()
      set(roots ${CUDAToolkit_TARGET_DIR} ${CUDAToolkit_LIBRARY_ROOT})
      foreach(package cudnn nccl cu13)
        if(TANDEM_NVIDIA_WHEELS)
          list(PREPEND roots ${TANDEM_NVIDIA_WHEELS}/${package})
        endif()
      endforeach()
      # Wheels carry no libcudnn.so, only the versioned name.
      find_path(TANDEM_CUDNN_INCLUDE cudnn.h HINTS ${roots} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
      find_library(TANDEM_CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${roots} ${CUDAToolkit_LIBRARY_DIR}
        PATH_SUFFIXES lib lib64)
      find_path(TANDEM_NCCL_INCLUDE nccl.h HINTS ${roots} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
      if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12)
        tandem_cuda_unavailable("nvcc is ${CMAKE_CUDA_COMPILER_VERSION}, C++20 needs 12.0 at least")
      elseif(TANDEM_CUDNN_INCLUDE AND TANDEM_CUDNN_LIBRARY AND TANDEM_NCCL_INCLUDE AND TARGET CUDA::cublasLt)
        file(STRINGS ${TANDEM_CUDNN_INCLUDE}/cudnn_version.h major REGEX "define CUDNN_MAJOR 9")
        if(major)
          set(TANDEM_CUDA_BUILT ON)
        else()
          tandem_cuda_unavailable("the cuDNN in ${TANDEM_CUDNN_INCLUDE} is not version 9")
        endif()
      else()
        tandem_cuda_unavailable("nvcc is there but cuDNN's or NCCL's headers are not (apt-get install
          libcudnn9-dev-cuda-13 libnccl-dev, or -DTANDEM_NVIDIA_WHEELS=<site-packages>/nvidia)")
      endif()
    endif()
  endif()
endif()

# Sonames that the program looks for before it opens the plugin.
set(major 13)
if(TANDEM_CUDA_BUILT AND CUDAToolkit_VERSION_MAJOR)
  set(major ${CUDAToolkit_VERSION_MAJOR})
endif()
set_property(SOURCE ${CMAKE_CURRENT_SOURCE_DIR}/device/backends/cuda.cpp APPEND PROPERTY COMPILE_DEFINITIONS
  TANDEM_CUDA_ABI="${TANDEM_CUDA_ABI}" TANDEM_CUBLASLT_SONAME="libcublasLt.so.${major}"
  TANDEM_NVRTC_SONAME="libnvrtc.so.${major}" TANDEM_CUDNN_SONAME="libcudnn.so.9" TANDEM_NCCL_SONAME="libnccl.so.2")

if(TANDEM_CUDA_BUILT)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.26 does not know nvcc's C++20
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
    set(CMAKE_CUDA20_COMPILE_FEATURES cuda_std_20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  if(CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
  # What the plugin needs of the program is compiled into it, so that it can be opened by any.
  add_library(tandem_cuda MODULE ${cuda_kernels} ${cuda_sources}
    ${CMAKE_SOURCE_DIR}/base/error.cpp ${CMAKE_SOURCE_DIR}/base/precision.cpp ${CMAKE_SOURCE_DIR}/exec/device/backend.cpp ${CMAKE_SOURCE_DIR}/exec/lower/call.cpp
    ${CMAKE_SOURCE_DIR}/models/layers/kernel.cpp ${CMAKE_SOURCE_DIR}/models/optimizer.cpp ${CMAKE_SOURCE_DIR}/base/units.cpp)
  set_target_properties(tandem_cuda PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR} CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON CUDA_RUNTIME_LIBRARY Static
    COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic>;$<$<COMPILE_LANGUAGE:CUDA>:--threads=2;--expt-relaxed-constexpr;-Xcompiler=-Wall>")
  set_property(SOURCE device/cuda/plugin.cpp APPEND PROPERTY COMPILE_DEFINITIONS TANDEM_CUDA_ABI="${TANDEM_CUDA_ABI}")
  target_include_directories(tandem_cuda PRIVATE ${CMAKE_SOURCE_DIR})
  target_include_directories(tandem_cuda SYSTEM PRIVATE ${TANDEM_CUDNN_INCLUDE} ${TANDEM_NCCL_INCLUDE})
  target_link_options(tandem_cuda PRIVATE "LINKER:--wrap=__cudaRegisterFunction")  # kernel_list.cpp
  target_link_libraries(tandem_cuda PRIVATE fmt::fmt CUDA::cudart_static CUDA::cublasLt ${TANDEM_CUDNN_LIBRARY})
  add_dependencies(plugins tandem_cuda)
  # For the tests.
  set(TANDEM_CUDA_INCLUDE ${CUDAToolkit_INCLUDE_DIRS} CACHE INTERNAL "")
  set(TANDEM_CUDA_STUB ${CUDAToolkit_LIBRARY_DIR}/stubs/libcuda.so CACHE INTERNAL "")
endif()
