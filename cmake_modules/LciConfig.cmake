# Writes the generated headers.
set(LCI_VERSION_SUFFIX "-dev")
set(LCI_VERSION ${PROJECT_VERSION}${LCI_VERSION_SUFFIX})

set(LCI_COMMIT "unknown")
find_package(Git QUIET)
if(GIT_FOUND AND EXISTS ${PROJECT_SOURCE_DIR}/.git)
  execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --short=12 HEAD
                  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} RESULT_VARIABLE git_failed
                  OUTPUT_VARIABLE git_commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT git_failed)
    set(LCI_COMMIT ${git_commit})
  endif()
endif()
# The time of the first configuration of this folder: a second build of the same sources changes nothing.
if(NOT LCI_BUILD_TIMESTAMP)
  string(TIMESTAMP timestamp "%Y-%m-%dT%H:%M:%SZ" UTC)
  set(LCI_BUILD_TIMESTAMP ${timestamp} CACHE INTERNAL "")
endif()

set(LCI_GENERATED_INCLUDE_DIR ${PROJECT_BINARY_DIR}/include)
set(LCI_NETWORK_BACKENDS_ENABLED "")
foreach(backend ${LCI_NETWORK_BACKENDS})
  string(TOUPPER "${backend}" backend)
  if(LCI_HAVE_${backend})
    set(LCI_BACKEND_ENABLE_${backend} ON)
    list(APPEND LCI_NETWORK_BACKENDS_ENABLED ${backend})
  endif()
endforeach()
# Why something is not in this build; where it is, nobody asks.
foreach(name IBV OFI HWLOC SODIUM)
  if(NOT LCI_WHY_NO_${name})
    set(LCI_WHY_NO_${name} "nothing was missing")
  endif()
endforeach()
foreach(option LCI_USE_REG_CACHE)
  if(${option})
    set(${option}_VALUE 1)
  else()
    set(${option}_VALUE 0)
  endif()
endforeach()
configure_file(${PROJECT_SOURCE_DIR}/include/lci/config.hpp.in
               ${LCI_GENERATED_INCLUDE_DIR}/lci/config.hpp @ONLY)
configure_file(${PROJECT_SOURCE_DIR}/include/lct_config.h.in ${LCI_GENERATED_INCLUDE_DIR}/lct_config.h @ONLY)

# The options of this build as one string literal, for lci_info -v. Only what somebody can set: our own
# options and the general ones.
get_cmake_property(lci_cache CACHE_VARIABLES)
set(lci_options "")
foreach(name ${lci_cache})
  if(name MATCHES "^(LCI_|LCT_|BUILD_SHARED_LIBS$|CMAKE_BUILD_TYPE$|CMAKE_CXX_(COMPILER|FLAGS)$)")
    string(REPLACE "\\" "\\\\" value "${${name}}")
    string(REPLACE "\"" "\\\"" value "${value}")
    string(APPEND lci_options "\"  ${name}=${value}\\n\" \\\n  ")
  endif()
endforeach()
set(lci_why_no_experimental "")
if(NOT LCI_EXPERIMENTAL)
  set(lci_why_no_experimental "experimental, not built: configure with -DLCI_EXPERIMENTAL=ON")
endif()
file(CONFIGURE OUTPUT ${LCI_GENERATED_INCLUDE_DIR}/lci/build_options.inc
     CONTENT "#define LCI_WHY_NO_EXPERIMENTAL \"${lci_why_no_experimental}\"\n#define LCI_BUILD_OPTIONS \\\n  @lci_options@\"\"\n" @ONLY)
