# HIP, the runtime of AMD's GPUs: its headers are needed to compile backends/hip, its library is loaded when the
# program runs.
#
#   lci_find_hip(<out>)      the folder with hip/hip_runtime_api.h, or empty
#   lci_use_hip(<target>)    compiles a target with it

function(lci_find_hip out)
  find_path(LCI_HIP_INCLUDE_DIR hip/hip_runtime_api.h HINTS $ENV{HIP_PATH} $ENV{ROCM_PATH} /opt/rocm
            PATH_SUFFIXES include)
  mark_as_advanced(LCI_HIP_INCLUDE_DIR)
  if(LCI_HIP_INCLUDE_DIR)
    set(${out} ${LCI_HIP_INCLUDE_DIR} PARENT_SCOPE)
  else()
    set(${out} "" PARENT_SCOPE)
  endif()
endfunction()

function(lci_use_hip target)
  target_include_directories(${target} SYSTEM PRIVATE ${LCI_HIP_INCLUDE_DIR})
endfunction()

if(LCI_USE_HIP)
  lci_find_hip(lci_hip_headers)
  if(NOT lci_hip_headers)
    message(FATAL_ERROR
      "lci: LCI_USE_HIP=ON needs hip/hip_runtime_api.h, which was not found: apt install libamdhip64-dev, or name "
      "its folder with -DLCI_HIP_INCLUDE_DIR=<folder>")
  endif()
endif()
