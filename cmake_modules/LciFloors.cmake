# Floors and the libraries made of them.
#
#   lci_floor(<name> <folder> [<room>...])  object library lci_<name> of the .cpp files of the folder, or of those in the
#                                           folders in it that are named, `.` for itself; with LCI_EXPERIMENTAL those in
#                                           the folders of experimental/<name> too, else its not_built.cpp
#   lci_library(<target> <file> [<floor>...])  the real library of all floors declared since the last one, and of
#                                              floors that an earlier one has too
#   lci_part(<folder> <switch> <in all>)  a folder beside the library, when it exists
#
# The libraries take the objects as sources, so nothing internal is in their link interface and a parent
# project can export them.

set(LCI_ALL_FLOORS "" CACHE INTERNAL "floors of liblci that have objects, lowest first")
set(LCI_OPEN_FLOORS "" CACHE INTERNAL "floors not yet part of a library")

add_library(lci_flags INTERFACE)
target_include_directories(lci_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include
                           ${LCI_GENERATED_INCLUDE_DIR})
target_include_directories(lci_flags SYSTEM INTERFACE ${Boost_INCLUDE_DIRS})
# Sources that are compiled together shadow each other's names, which clang cannot tell from names of one function.
set(LCI_SHADOW_LOCAL_OPTION -Wno-shadow)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(LCI_SHADOW_LOCAL_OPTION -Wshadow=local)
endif()
# Borrowed thread-local pointers are on the path of every message: one load, no call.
target_compile_options(lci_flags INTERFACE -Wall -Wextra -Wpedantic
                       $<IF:$<BOOL:$<TARGET_PROPERTY:LCI_SHADOW_LOCAL>>,${LCI_SHADOW_LOCAL_OPTION},-Wshadow>
                       -ftls-model=initial-exec
                       $<$<BOOL:${LCI_BUILD_WARN_AS_ERROR}>:-Werror>
                       $<$<BOOL:${LCI_OPTIMIZE_FOR_NATIVE}>:-march=native>)
# LCI_DEBUG is spelt as the generated header spells it, for sources that do not include that.
target_compile_definitions(lci_flags INTERFACE LCI_HAVE_HWLOC=${LCI_HAVE_HWLOC}
                           LCI_HAVE_SODIUM=${LCI_HAVE_SODIUM} $<$<BOOL:${LCI_DEBUG}>:LCI_DEBUG=>
                           $<$<BOOL:${LCI_RACE_POINTS}>:LCI_RACE_POINTS=1>)
# gcc 12 and 13 warn about strings put together with `+` once everything is inlined (their bugs 105651 and 105329).
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  target_compile_options(lci_flags INTERFACE -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow
                         -Wno-stringop-overread)
endif()
# It does not know fences; what needs one is said in the code (lci/base/platform.hpp).
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_FLAGS MATCHES "-fsanitize=thread")
  target_compile_options(lci_flags INTERFACE -Wno-tsan)
endif()
# What is loaded by name is called through types of our own that are as wide as those of its headers.
if(CMAKE_CXX_COMPILER_ID MATCHES Clang AND CMAKE_CXX_FLAGS MATCHES "-fsanitize=[a-z,]*undefined")
  target_compile_options(lci_flags INTERFACE -fno-sanitize=function)
endif()
# Its collector of garbage takes a tenth of the time of a source that needs some hundred MiB; it begins at 128 MiB by
# default. Such a source takes at most a third more memory so (docs/decisions/0066-less-to-compile.md).
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND LCI_IS_ROOT)
  target_compile_options(lci_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=524288>)
endif()
# Plain names, not imported targets: a static build exports them as they are.
set(LCI_SYSTEM_LIBRARIES pthread ${CMAKE_DL_LIBS} rt)
foreach(name HWLOC SODIUM)
  if(LCI_HAVE_${name})
    target_include_directories(lci_flags SYSTEM INTERFACE ${LCI_${name}_INCLUDE_DIR})
    list(APPEND LCI_SYSTEM_LIBRARIES ${LCI_${name}_LIBRARY})
  endif()
endforeach()

# The sources of a target are compiled at once, or as many as MOST says: most of the time goes into headers and templates
# that they share (docs/decisions/0039-what-runs-when.md).
function(lci_unity target)
  cmake_parse_arguments(arg "" "MOST" "" ${ARGN})
  if(NOT arg_MOST)
    set(arg_MOST 0)
  endif()
  if(LCI_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${arg_MOST})
    if(arg_MOST EQUAL 0)
      set_target_properties(${target} PROPERTIES LCI_SHADOW_LOCAL ON)
    endif()
  endif()
endfunction()

# Headers of the standard library that most floors use, parsed once for all of them. Each source includes what it uses all
# the same (tools/lint/includes.py).
function(lci_floor_headers target)
  if(NOT TARGET lci_floor_pch)
    file(WRITE ${PROJECT_BINARY_DIR}/generated/lci_floor_pch.cpp "// Only its precompiled header is of use.\n")
    add_library(lci_floor_pch OBJECT ${PROJECT_BINARY_DIR}/generated/lci_floor_pch.cpp)
    target_link_libraries(lci_floor_pch PRIVATE lci_flags)
    set_target_properties(lci_floor_pch PROPERTIES FOLDER lci)
    target_precompile_headers(lci_floor_pch PRIVATE <algorithm> <array> <atomic> <chrono> <cstdint> <cstring> <exception>
                              <functional> <map> <memory> <mutex> <new> <optional> <span> <stdexcept> <string> <string_view>
                              <thread> <utility> <vector>)
  endif()
  target_precompile_headers(${target} REUSE_FROM lci_floor_pch)
endfunction()

function(lci_floor name folder)
  set(rooms ${ARGN})
  if(NOT rooms)
    set(rooms .)
  endif()
  set(sources "")
  foreach(room ${rooms})
    file(GLOB of_room CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/${room}/*.cpp)
    list(APPEND sources ${of_room})
  endforeach()
  if(NOT sources)
    return()
  endif()
  if(LCI_EXPERIMENTAL)
    file(GLOB experimental CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/experimental/${name}/*/*.cpp)
  else()
    file(GLOB experimental CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/experimental/${name}/not_built.cpp)
  endif()
  add_library(lci_${name} OBJECT ${sources} ${experimental})
  target_link_libraries(lci_${name} PRIVATE lci_flags)
  set_target_properties(lci_${name} PROPERTIES FOLDER lci)
  lci_floor_headers(lci_${name})
  # All at once an optimised library is another one: a send has 18 instructions more, a receive 69.
  if(CMAKE_BUILD_TYPE STREQUAL Debug)
    lci_unity(lci_${name})
  else()
    set(most 6)
    if(name MATCHES "^(boot|cuda|proxy|runtime|share|transport)$")
      set(most 12)  # no message between host buffers passes through them; cost_transport counts the rest
    endif()
    lci_unity(lci_${name} MOST ${most})
  endif()
  set(LCI_OPEN_FLOORS ${LCI_OPEN_FLOORS} ${name} CACHE INTERNAL "")
  if(NOT name STREQUAL lct)
    set(LCI_ALL_FLOORS ${LCI_ALL_FLOORS} ${name} CACHE INTERNAL "")
  endif()
endfunction()

function(lci_library target file)
  set(objects "")
  set(floors ${ARGN} ${LCI_OPEN_FLOORS})
  list(REMOVE_DUPLICATES floors)
  foreach(floor ${floors})
    list(APPEND objects $<TARGET_OBJECTS:lci_${floor}>)
  endforeach()
  set(LCI_OPEN_FLOORS "" CACHE INTERNAL "")
  add_library(${target} ${objects})
  add_library(LCI::${target} ALIAS ${target})
  add_library(LCI::${file} ALIAS ${target})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${file} LINKER_LANGUAGE CXX
                        VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                        INSTALL_RPATH "$ORIGIN")
  # When a thread ends, its number is given back: that code stays when a plug-in with the library is unloaded before.
  if(BUILD_SHARED_LIBS)
    target_link_options(${target} PRIVATE LINKER:-z,nodelete)
  endif()
  # What lci/device.cuh includes, as an installed lci has it, and none of the library's own headers.
  foreach(room gpu wqe)
    if(NOT EXISTS ${PROJECT_BINARY_DIR}/kernel_include/lci/${room})
      file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/kernel_include/lci)
      file(CREATE_LINK ${PROJECT_SOURCE_DIR}/lci/${room} ${PROJECT_BINARY_DIR}/kernel_include/lci/${room} SYMBOLIC)
    endif()
  endforeach()
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/kernel_include>
    $<BUILD_INTERFACE:${LCI_GENERATED_INCLUDE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  # The headers ask for C++11 and no more, and force no standard on clients that have a newer one.
  target_compile_features(${target} INTERFACE cxx_std_11)
  target_link_libraries(${target} PRIVATE ${LCI_SYSTEM_LIBRARIES})
endfunction()

function(lci_part folder switch in_all)
  if(NOT ${switch} OR NOT EXISTS ${PROJECT_SOURCE_DIR}/${folder}/CMakeLists.txt)
    return()
  endif()
  if(in_all OR folder STREQUAL docs)
    add_subdirectory(${PROJECT_SOURCE_DIR}/${folder} ${PROJECT_BINARY_DIR}/${folder})
  else()
    add_subdirectory(${PROJECT_SOURCE_DIR}/${folder} ${PROJECT_BINARY_DIR}/${folder} EXCLUDE_FROM_ALL)
  endif()
  if(LCI_INSTALL AND in_all AND folder MATCHES "^(tools|examples|bench)$")
    lci_install_programs(${folder})
  endif()
endfunction()
