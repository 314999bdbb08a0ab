# The options of the build. Those that a client passes by name stay even where they have nothing left
# to decide: a script that configures with them must keep working.

# A parent project keeps its own choice of library kind: no cache entry is made on its behalf.
if(LCI_IS_ROOT)
  option(BUILD_SHARED_LIBS "Build shared libraries" ON)
elseif(NOT DEFINED BUILD_SHARED_LIBS)
  set(BUILD_SHARED_LIBS ON)
endif()
if(LCI_IS_ROOT AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()

# What is built beside the library, and whether it is part of `all`.
option(LCI_WITH_LCT_ONLY "Build the companion library LCT without LCI" OFF)
option(LCI_WITH_EXAMPLES "Configure the examples" ${LCI_IS_ROOT})
# They name files of the build, of which several configurations have one each.
get_property(LCI_IS_MULTI_CONFIG GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
set(lci_can_test ${LCI_IS_ROOT})
if(LCI_IS_MULTI_CONFIG)
  set(lci_can_test OFF)
endif()
option(LCI_WITH_TESTS "Configure the tests" ${lci_can_test})
option(LCI_WITH_BENCHMARKS "Configure the benchmarks" ${lci_can_test})
if(LCI_IS_MULTI_CONFIG AND (LCI_WITH_TESTS OR LCI_WITH_BENCHMARKS))
  message(FATAL_ERROR "lci: LCI_WITH_TESTS and LCI_WITH_BENCHMARKS need a generator of one configuration, such as Ninja")
endif()
option(LCI_WITH_DOC "Configure the documentation" ${LCI_IS_ROOT})
option(LCI_WITH_TOOLS "Configure lcrun, lci_info and the other tools" ${LCI_IS_ROOT})
option(LCI_BUILD_EXAMPLES "Examples are part of the target all" ON)
option(LCI_BUILD_TESTS "Tests are part of the target all" ON)
option(LCI_BUILD_BENCHMARKS "Benchmarks are part of the target all" ON)
# Off, so that a warning of a newer compiler fails no build; ./dev test all reports every warning.
option(LCI_BUILD_WARN_AS_ERROR "Treat warnings of this build as errors" OFF)
option(LCI_FETCHCONTENT_INSTALL "Install LCI even if it is a subproject" ON)
set(LCI_TEST_SUITES "" CACHE STRING "Folders of tests/ to build; empty means all of them")
option(LCI_VM_TESTS "Tests in virtual machines with soft-RoCE (skipped if machines cannot run)" ON)

# How the library is compiled.
option(LCI_DEBUG "Checks of collectives, of buffers in GPU memory and of packets put back twice" OFF)
option(LCI_RACE_POINTS "Race points, where a test runs code of another thread; test builds only" OFF)
option(LCI_UNITY "Compile several sources together: faster full builds, slower incremental builds" ON)
set(LCI_TEST_CXX_FLAGS "" CACHE STRING "Additional compiler options for unit and contract tests")
set(LCI_LONG_TEST_CXX_FLAGS "" CACHE STRING "The same for tests that take longer to run than to compile; empty: no other ones")
set(LCI_TOOL_CXX_FLAGS "" CACHE STRING "The same for programs that do little themselves: lcrun, lci_info, examples")
option(LCI_OPTIMIZE_FOR_NATIVE "Compile for this CPU (-march=native)" OFF)
set(LCI_CACHE_LINE 64 CACHE STRING "Bytes in a cache line")

# Backends. Shared memory is always there.
set(LCI_NETWORK_BACKENDS "ibv;ofi" CACHE STRING "Network backends to look for, in order of preference")
if(DEFINED LCI_SERVER)
  message(DEPRECATION "LCI_SERVER is now called LCI_NETWORK_BACKENDS")
  set(LCI_NETWORK_BACKENDS ${LCI_SERVER})
endif()
string(REPLACE "," ";" LCI_NETWORK_BACKENDS "${LCI_NETWORK_BACKENDS}")
set(LCI_OFI_PROVIDER_HINT_DEFAULT "" CACHE STRING "Default of the attribute ofi_provider_name")
option(LCI_WITH_SHM "Accepted, without effect: shared memory between the processes of a host is always built" ON)
option(LCI_USE_REG_CACHE "Default of the attribute use_reg_cache" OFF)

# What has never run on the hardware that it is for (docs/decisions/0037-experimental-parts.md).
option(LCI_EXPERIMENTAL "gdrcopy, several cards together, Data Direct, extended completion queues and kernels that use a card" OFF)

# Accelerators.
option(LCI_USE_CUDA "CUDA device code, compiled by nvcc; the host side is always built" OFF)
option(LCI_USE_HIP "AMD GPUs: compiled with the HIP headers, loaded at run time" OFF)
if(LCI_USE_CUDA AND LCI_USE_HIP)
  message(FATAL_ERROR "LCI_USE_CUDA and LCI_USE_HIP cannot both be ON")
endif()
set(LCI_CUDA_ARCH "" CACHE STRING
    "GPUs to compile for, such as 80;90; empty: one of each generation that nvcc knows")
set(LCI_CUDA_STANDARD "" CACHE STRING "C++ standard of device code; empty: 17")
foreach(name LCI_HIP_ARCH LCI_HIP_STANDARD)
  set(${name} "" CACHE STRING "Without effect: there is no device code for HIP")
endforeach()

# Defaults of attributes.
set(LCI_PACKET_SIZE_DEFAULT 8192 CACHE STRING "Default of the attribute packet_size")
set(LCI_PACKET_NUM_DEFAULT 65536 CACHE STRING "Default of the attribute npackets")
set(LCI_BACKEND_MAX_SENDS_DEFAULT 64 CACHE STRING "Default of the attribute net_max_sends")
set(LCI_BACKEND_MAX_RECVS_DEFAULT 4096 CACHE STRING "Default of the attribute net_max_recvs")
set(LCI_BACKEND_MAX_CQES_DEFAULT 65536 CACHE STRING "Default of the attribute net_max_cqes")
set(LCI_BACKEND_MAX_POLLS 32 CACHE STRING "Maximum number of completions per progress call")
set(LCI_USE_MAX_SINGLE_MESSAGE_SIZE_DEFAULT 0x7FFFFFFF CACHE STRING
    "Default of the attribute max_msg_size")

# Bootstrap. LCI_PMI_BACKEND_DEFAULT is another spelling of the LCT_ one.
set(LCT_PMI_BACKEND_DEFAULT "pmix;pmi2;pmi1;mpi;tcp;file;local" CACHE STRING
    "Order in which bootstraps are tried")
if(DEFINED LCI_PMI_BACKEND_DEFAULT)
  set(LCT_PMI_BACKEND_DEFAULT ${LCI_PMI_BACKEND_DEFAULT})
endif()
string(REGEX REPLACE "[, ]+" ";" LCT_PMI_BACKEND_DEFAULT "${LCT_PMI_BACKEND_DEFAULT}")
# All are there unless they are not wanted, since their libraries are found at run time.
set(LCT_PMI_BACKEND_LEFT_OUT "")
foreach(name pmi1 pmi2 pmix mpi)
  string(TOUPPER ${name} upper)
  option(LCT_PMI_BACKEND_ENABLE_${upper} "Support the bootstrap ${name}" ON)
  if(NOT LCT_PMI_BACKEND_ENABLE_${upper})
    list(APPEND LCT_PMI_BACKEND_LEFT_OUT ${name})
  endif()
endforeach()
option(LCT_DEBUG "Debug assertions of LCT" ${LCI_DEBUG})
set(LCT_CACHE_LINE ${LCI_CACHE_LINE} CACHE STRING "Bytes in a cache line, for LCT")

# How tests are started.
set(LCI_USE_CTEST_LAUNCHER "" CACHE STRING "Launcher for tests; empty means lcrun")
set(LCI_USE_CTEST_ARGS "" CACHE STRING "Additional arguments for the launcher")

# Accepted, without effect: scripts pass them.
option(LCI_USE_PAPI "Accepted, without effect" OFF)
# The program chooses its malloc; a library must not choose it.
option(LCI_USE_TCMALLOC "Accepted, without effect" OFF)
# Objects that need cache line alignment always have it. The option of LCT only sets the macro of that name.
option(LCI_CONFIG_USE_ALIGNED_ALLOC "Accepted, without effect" ON)
option(LCT_CONFIG_USE_ALIGNED_ALLOC "Accepted, without effect" ${LCI_CONFIG_USE_ALIGNED_ALLOC})
# Only sets the macro of that name: the library has no counters to leave out.
option(LCI_USE_PERFORMANCE_COUNTER "Accepted, without effect" ${LCI_DEBUG})
foreach(name LCI_USE_AVX LCI_USE_IBV_TD_DEFAULT LCI_USE_PRG_ENDPOINT_DEFAULT
             LCI_USE_RDV_PROTOCOL_DEFAULT LCI_USE_MT_BACKEND_DEFAULT)
  set(${name} "" CACHE STRING "Accepted, without effect")
  mark_as_advanced(${name})
endforeach()

if(LCI_IS_ROOT OR LCI_FETCHCONTENT_INSTALL)
  set(LCI_INSTALL ON)
else()
  set(LCI_INSTALL OFF)
endif()

# Where installed programs find the library. The folders may be given as absolute ones.
file(RELATIVE_PATH lci_bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set(LCI_INSTALLED_RPATH "$ORIGIN/${lci_bin_to_lib}")

# These are variables of our own directories, not cache entries: a parent project keeps its own.
# Libraries outside the system's folders (hwloc, libsodium) are found at run time where they were found now.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
if(LCI_IS_ROOT)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  # Of several configurations, each has both folders.
  set(LCI_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  if(LCI_IS_MULTI_CONFIG)
    set(LCI_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/$<CONFIG>)
  endif()
  set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${LCI_OUTPUT_DIRECTORY}/lib)
  set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${LCI_OUTPUT_DIRECTORY}/lib)
  # One run path for the build tree and for the installed tree: both keep bin beside the libraries.
  set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
  set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib;${LCI_INSTALLED_RPATH}")
  find_program(LCI_CCACHE ccache)
  mark_as_advanced(LCI_CCACHE)
  if(LCI_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${LCI_CCACHE})
  endif()
endif()
