# Device code of CUDA, compiled by nvcc and carried inside a library or program as bytes. Nothing links to the
# CUDA runtime: the host side hands the image to the driver that it has loaded, so the binary starts where
# there is none.
#
#   lci_find_nvcc(<out>)   nvcc, or empty. What is found stays as LCI_NVCC, which may be set by hand; to nothing, and
#                          none is looked for.
#   lci_embed_device_code(<target> <symbol> <source.cu> [FEW] [NEVER_RUN])
#       puts the compiled source into a target of the same folder, as
#         extern const unsigned char <symbol>[];
#         extern const unsigned long <symbol>_size;
#       Machine code for each of LCI_CUDA_ARCH, and PTX of the last one for GPUs that come later. FEW, for tests, which
#       are compiled more often than run: PTX of the first one, and machine code for Hopper alone, which takes three times as
#       long as PTX; without LCI_USE_CUDA only the PTX, which shows that they compile, and of which a driver makes the rest.
#       NEVER_RUN: it shows that it compiles, and is optimised no further than that takes.

# Full path, also where the file itself is included from elsewhere.
set(LCI_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/LciEmbed.cmake)
# Paths in what nvcc says about headers are taken as they are.
if(POLICY CMP0116)
  cmake_policy(SET CMP0116 NEW)
endif()

function(lci_find_nvcc out)
  if(NOT LCI_NVCC)
    find_package(CUDAToolkit QUIET)
    # The package names its folder in some cases, and nvcc itself in others.
    get_filename_component(folder "${CUDAToolkit_NVCC_EXECUTABLE}" DIRECTORY)
    find_program(LCI_NVCC nvcc HINTS ${folder} ${CUDAToolkit_BIN_DIR} NO_DEFAULT_PATH)
    mark_as_advanced(LCI_NVCC)
  endif()
  if(EXISTS "${LCI_NVCC}")
    set(${out} ${LCI_NVCC} PARENT_SCOPE)
  else()
    set(${out} "" PARENT_SCOPE)
  endif()
endfunction()

# What this nvcc compiles for, as numbers, lowest first.
function(lci_architectures_of nvcc out)
  execute_process(COMMAND ${nvcc} --list-gpu-arch OUTPUT_VARIABLE listed ERROR_VARIABLE why RESULT_VARIABLE failed)
  string(REGEX MATCHALL "compute_[0-9]+" listed "${listed}")
  if(failed OR NOT listed)
    message(FATAL_ERROR "lci: ${nvcc} --list-gpu-arch does not say for which GPUs it compiles: ${why}")
  endif()
  list(TRANSFORM listed REPLACE "compute_" "")
  list(SORT listed COMPARE NATURAL)
  set(${out} ${listed} PARENT_SCOPE)
endfunction()

# Those asked for, or one of each generation: the oldest from Volta on that this nvcc knows, Ampere, Hopper,
# Blackwell. Code for the first of a generation runs on all of it.
function(lci_device_architectures nvcc out)
  lci_architectures_of(${nvcc} known)
  if(NOT LCI_CUDA_ARCH)
    set(chosen "")
    foreach(number ${known})
      if(number LESS 70)
        continue()
      endif()
      if(NOT chosen OR number MATCHES "^(80|90|100)$")
        list(APPEND chosen ${number})
      endif()
    endforeach()
    set(${out} ${chosen} PARENT_SCOPE)
    return()
  endif()
  string(REGEX REPLACE "(sm_|compute_)" "" asked "${LCI_CUDA_ARCH}")
  string(REGEX REPLACE "[, ]+" ";" asked "${asked}")
  foreach(one ${asked})
    string(REGEX MATCH "^([0-9]+)[af]?$" is_number "${one}")
    if(NOT is_number OR NOT CMAKE_MATCH_1 IN_LIST known)
      message(FATAL_ERROR "lci: LCI_CUDA_ARCH names ${one}; ${nvcc} compiles for ${known}")
    endif()
  endforeach()
  list(SORT asked COMPARE NATURAL)
  set(${out} ${asked} PARENT_SCOPE)
endfunction()

function(lci_nvcc_options nvcc out few)
  lci_device_architectures(${nvcc} architectures)
  set(standard ${LCI_CUDA_STANDARD})
  if(NOT standard)
    set(standard 17)
  endif()
  # Machine code for an old GPU is no less right because the next nvcc will not make it any more.
  set(options -fatbin -std=c++${standard} -O3 -Wno-deprecated-gpu-targets)
  if(few)
    list(GET architectures 0 ptx)
    list(FILTER architectures INCLUDE REGEX "^90$")
    if(NOT LCI_USE_CUDA)
      set(architectures "")
    endif()
  else()
    list(GET architectures -1 ptx)
  endif()
  foreach(number ${architectures})
    list(APPEND options -gencode=arch=compute_${number},code=sm_${number})
  endforeach()
  list(APPEND options -gencode=arch=compute_${ptx},code=compute_${ptx})
  if(LCI_BUILD_WARN_AS_ERROR)
    list(APPEND options -Werror all-warnings)
  endif()
  # The host compiler has no part in the result, but nvcc wants one that it knows.
  if(CMAKE_CUDA_HOST_COMPILER)
    list(APPEND options -ccbin ${CMAKE_CUDA_HOST_COMPILER})
  endif()
  list(APPEND options -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/include -I${LCI_GENERATED_INCLUDE_DIR})
  set(${out} ${options} PARENT_SCOPE)
endfunction()

function(lci_embed_device_code target symbol source)
  lci_find_nvcc(nvcc)
  if(NOT nvcc)
    message(FATAL_ERROR "lci: no nvcc to compile ${source} for ${target}")
  endif()
  cmake_parse_arguments(PARSE_ARGV 3 arg "FEW;NEVER_RUN" "" "")
  lci_nvcc_options(${nvcc} options "${arg_FEW}")
  if(arg_NEVER_RUN)
    list(APPEND options -Xcicc -O1)
  endif()
  get_filename_component(source ${source} ABSOLUTE)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/device_code/${target})
  set(image ${folder}/${symbol}.fatbin)
  file(MAKE_DIRECTORY ${folder})
  # Headers are watched where CMake can read what nvcc says about them.
  set(watch "")
  if(NOT CMAKE_VERSION VERSION_LESS 3.20)
    list(APPEND options -MD -MT ${image} -MF ${image}.d)
    set(watch DEPFILE ${image}.d)
  endif()
  add_custom_command(OUTPUT ${image} COMMAND ${nvcc} ${options} -o ${image} ${source}
                     DEPENDS ${source} ${watch} VERBATIM COMMENT "Device code ${symbol}")
  add_custom_command(OUTPUT ${folder}/${symbol}.cpp
                     COMMAND ${CMAKE_COMMAND} -DIMAGE=${image} -DSYMBOL=${symbol}
                             -DOUTPUT=${folder}/${symbol}.cpp -P ${LCI_EMBED_SCRIPT}
                     DEPENDS ${image} ${LCI_EMBED_SCRIPT} VERBATIM COMMENT "Bytes of ${symbol}")
  target_sources(${target} PRIVATE ${folder}/${symbol}.cpp)
  set_source_files_properties(${folder}/${symbol}.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON
                              SKIP_PRECOMPILE_HEADERS ON OBJECT_DEPENDS ${image})
endfunction()

if(LCI_USE_CUDA)
  lci_find_nvcc(lci_nvcc)
  if(NOT lci_nvcc)
    message(FATAL_ERROR
      "lci: LCI_USE_CUDA=ON compiles code for GPUs and needs nvcc, which was not found. Install the CUDA toolkit "
      "(NVIDIA's package cuda-nvcc, or Debian's nvidia-cuda-toolkit) and name its folder with "
      "-DCUDAToolkit_ROOT=<folder> if it is an unusual one; or leave LCI_USE_CUDA off: GPU memory works without.")
  endif()
  lci_device_architectures(${lci_nvcc} lci_architectures)
  message(STATUS "lci: device code by ${lci_nvcc} for ${lci_architectures}")
endif()
