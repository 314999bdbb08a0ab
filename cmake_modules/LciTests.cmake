# Declaring tests.
#
#   lci_test(<name> [RANKS n] [SERIAL] [FULL] [LONG] [WAITS] [WIDE] [TIMEOUT s] COMMAND ...)
#       one ctest entry. Exit status 77 means skipped. Several ranks run under lcrun; 15 s before their TIMEOUT
#       (300, that of a hang) lcrun prints who waits for what, and ends them
#       (docs/decisions/0038-who-waits-for-what.md). WAITS: mostly for time to pass. ctest's PROCESSORS are thirds of a core, of which such a test takes one, others two, two ranks three and
#       more ranks four, as does what is WIDE: starts so many by itself. SERIAL: alone, for what a neighbour would disturb:
#       a GPU, counts of what is in /dev/shm, a limit of time that is tested. FULL: not one of the quick tests (label full),
#       as all of a folder are where LCI_TESTS_FULL is set; LONG: in no run but the long one
#   lci_vm_test(<name> [PAIR] [PROCESSES n] [LOSS p] [DELAY t] [DROP] [DEVICES n] [CPUS n] [MEMORY s] [TIMEOUT s] [LONG]
#               [EXPECT [-s status] pattern...] [ENVIRONMENT NAME=VALUE...] COMMAND ...)
#       one ctest entry that runs in a virtual machine with soft-RoCE, or in two of them (tests/vm)
#   lci_test_targets()  the targets lci_quick, the programs that the quick tests run, and lci_tested, which all but the long
#       ones run
#   lci_internals_of(<floor> <out>)  the floors whose objects a test of that floor links
#   lci_test_unity(<target> [MOST n])  its sources are compiled at once, or n at a time
#   lci_keep_threaded(<list>)  takes the sources of tests that start no thread out of a list
#   lci_long_test(<target>)  takes longer to run than to compile; said before its headers
#   lci_link_internals(<target> <floor>...)  their objects, what those need, and GoogleTest's headers parsed once

# What each floor may see, as the include checker has it.
set(LCI_BELOW_base "")
set(LCI_BELOW_data base)
set(LCI_BELOW_wqe base)
set(LCI_BELOW_mem base data)
foreach(floor net match comp shm cuda ibv ofi)
  set(LCI_BELOW_${floor} base data mem)
endforeach()
foreach(floor shm cuda ibv ofi)
  list(APPEND LCI_BELOW_${floor} net)
endforeach()
set(LCI_BELOW_hip ${LCI_BELOW_cuda} cuda)
set(LCI_BELOW_proto base data mem net match comp)
set(LCI_BELOW_device base data wqe mem net match comp)
# Its code is headers; its tests stand on the card in software.
set(LCI_BELOW_gpu base data wqe mem net match comp device)
# Their tests have a network of their own in place of the providers, in the job of lci/proxy.
set(LCI_BELOW_proxy base data wqe mem net match comp proto boot device runtime api coll)
set(LCI_BELOW_coll ${LCI_BELOW_proxy} proxy)
set(LCI_BELOW_boot base data mem net match comp)

function(lci_internals_of floor out)
  set(floors ${LCI_ALL_FLOORS})
  if(DEFINED LCI_BELOW_${floor})
    set(floors "")
    foreach(lower ${LCI_BELOW_${floor}} ${floor})
      if(lower IN_LIST LCI_ALL_FLOORS)
        list(APPEND floors ${lower})
      endif()
    endforeach()
  endif()
  set(${out} ${floors} PARENT_SCOPE)
endfunction()

# GoogleTest's headers, parsed once for all tests with the same options. The executables that reuse this are compiled with
# -fPIE, so it is too: the compiler refuses it otherwise.
function(lci_test_headers target)
  get_target_property(long ${target} LCI_LONG_TEST)
  set(headers lci_test_pch)
  set(flags ${LCI_TEST_CXX_FLAGS})
  if(long AND LCI_LONG_TEST_CXX_FLAGS)
    set(headers lci_long_test_pch)
    set(flags ${LCI_LONG_TEST_CXX_FLAGS})
  endif()
  if(NOT TARGET ${headers})
    file(WRITE ${PROJECT_BINARY_DIR}/generated/${headers}.cpp "// Only its precompiled header is of use.\n")
    add_library(${headers} OBJECT ${PROJECT_BINARY_DIR}/generated/${headers}.cpp)
    set_target_properties(${headers} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${headers} PRIVATE -fPIE)
    target_link_libraries(${headers} PRIVATE lci_flags GTest::gmock GTest::gtest)
    target_compile_options(${headers} PRIVATE ${flags})
    target_precompile_headers(${headers} PRIVATE <gmock/gmock.h> <gtest/gtest.h> <atomic> <string>
                              <thread> <vector>)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${headers})
  target_compile_options(${target} PRIVATE ${flags})
endfunction()

# Most of a run is its own code, or that code is counted. A run of the others is mostly the library, which is optimised as
# ever (docs/decisions/0066-less-to-compile.md).
function(lci_long_test target)
  set_target_properties(${target} PROPERTIES LCI_LONG_TEST ON)
endfunction()

# For the thread sanitizer, which has nothing to say of one thread. A source that is edited is looked at again.
function(lci_keep_threaded list)
  set(kept "")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${${list}})
  foreach(source IN LISTS ${list})
    file(STRINGS ${source} lines REGEX "std::j?thread|in_thread|mpmc_rounds|(consumer|shared_device|stress)[.]hpp" LIMIT_COUNT 1)
    if(lines OR NOT source MATCHES "_(test|contract)[.]cpp$")
      list(APPEND kept ${source})
    endif()
  endforeach()
  set(${list} ${kept} PARENT_SCOPE)
endfunction()

# For tests of many sources. The fixtures of each are in its anonymous namespace.
function(lci_test_unity target)
  lci_unity(${target} ${ARGN})
  if(LCI_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

function(lci_link_internals target)
  target_link_libraries(${target} PRIVATE lci_flags)
  lci_test_headers(${target})
  foreach(floor ${ARGN})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:lci_${floor}>)
  endforeach()
  if(TARGET lci_test_support)
    target_link_libraries(${target} PRIVATE lci_test_support)
  endif()
  target_link_libraries(${target} PRIVATE ${LCI_SYSTEM_LIBRARIES})
endfunction()

# lcrun such that it tells who waits for what before the time, in seconds, is up.
function(lci_launcher out limit)
  math(EXPR limit "${limit} - 15")
  set(${out} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/lcrun --timeout ${limit} PARENT_SCOPE)
endfunction()

function(lci_test name)
  cmake_parse_arguments(arg "SERIAL;FULL;LONG;WAITS;WIDE" "RANKS;TIMEOUT" "COMMAND" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(arg_RANKS)
    if(LCI_USE_CTEST_LAUNCHER)
      set(launcher ${LCI_USE_CTEST_LAUNCHER} ${LCI_USE_CTEST_ARGS})
    else()
      lci_launcher(launcher ${arg_TIMEOUT})
    endif()
    set(arg_COMMAND ${launcher} -n ${arg_RANKS} ${arg_COMMAND})
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${arg_TIMEOUT} PROCESSORS 2)
  if(arg_WAITS)
    # Long waits begin early: ctest starts with what costs most.
    set_tests_properties(${name} PROPERTIES PROCESSORS 1 COST 100)
  elseif(arg_WIDE OR arg_RANKS GREATER 2)
    set_tests_properties(${name} PROPERTIES PROCESSORS 4)
  elseif(arg_RANKS EQUAL 2)
    set_tests_properties(${name} PROPERTIES PROCESSORS 3)
  endif()
  if(arg_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
  if(arg_LONG)
    set_property(TEST ${name} APPEND PROPERTY LABELS long)
    return()
  endif()
  # Whatever the command names: targets, their files and folders.
  string(REGEX REPLACE "\\$<TARGET_FILE(_DIR)?:([^>]+)>" ";\\2;" targets "${arg_COMMAND}")
  set_property(GLOBAL APPEND PROPERTY LCI_TESTED_TARGETS ${targets})
  if(arg_FULL OR LCI_TESTS_FULL)
    set_property(TEST ${name} APPEND PROPERTY LABELS full)
  else()
    set_property(GLOBAL APPEND PROPERTY LCI_QUICK_TARGETS ${targets})
  endif()
endfunction()

# At the end, when all targets are known.
function(lci_test_targets)
  foreach(some quick tested)
    string(TOUPPER LCI_${some}_TARGETS property)
    get_property(named GLOBAL PROPERTY ${property})
    set(targets "")
    foreach(one ${named})
      get_filename_component(one "${one}" NAME)
      if(TARGET "${one}")
        list(APPEND targets ${one})
      endif()
    endforeach()
    list(REMOVE_DUPLICATES targets)
    add_custom_target(lci_${some} DEPENDS ${targets})
  endforeach()
endfunction()

# One test at a time uses machines, which keep both of two cores busy for two thirds of the time: another test runs beside.
# They begin early, so that there is one. The image is made by the test vm_image.
function(lci_in_vm name)
  set_property(TEST ${name} APPEND PROPERTY LABELS vm)
  set_tests_properties(${name} PROPERTIES RESOURCE_LOCK vm PROCESSORS 4 COST 50 FIXTURES_REQUIRED vm_image)
endfunction()

# PROCESSES n: the command is started n times as ranks of one job; in one machine by lcrun, of a pair on each machine
# with the variables of the tcp bootstrap. Without it, it is started once on each machine, and is no job.
# EXPECT: lines that the machines print, as expect.sh has them; of a pair, each begins with the machine's number, "[0] ".
# DROP: what a machine of a pair does not take is lost. That and LOSS p also keep each message within one packet, because
# soft-RoCE breaks longer ones when packets are lost (docs/virtual-machines.md).
function(lci_vm_test name)
  cmake_parse_arguments(arg "PAIR;LONG;DROP" "PROCESSES;LOSS;DELAY;DEVICES;CPUS;MEMORY;TIMEOUT" "EXPECT;ENVIRONMENT;COMMAND"
                        ${ARGN})
  if(NOT arg_COMMAND OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "lci_vm_test(${name}): no COMMAND, or unknown: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT LCI_VM_TESTS OR NOT Python3_FOUND)
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  set(options --if-possible --timeout ${arg_TIMEOUT})
  foreach(pair LOSS:loss DELAY:delay DEVICES:devices CPUS:cpus MEMORY:mem)
    string(REPLACE ":" ";" pair ${pair})
    list(GET pair 0 argument)
    list(GET pair 1 option)
    if(arg_${argument})
      list(APPEND options --${option} ${arg_${argument}})
    endif()
  endforeach()
  if(arg_DROP)
    list(APPEND options --drop)
  endif()
  if(arg_LOSS OR arg_DROP)
    list(APPEND arg_ENVIRONMENT LCI_ATTR_MAX_MSG_SIZE=4096 LCI_ATTR_PACKET_SIZE=4032)
  endif()
  foreach(variable ${arg_ENVIRONMENT})
    list(APPEND options --env ${variable})
  endforeach()
  set(mode run)
  if(arg_PAIR)
    set(mode pair)
    if(arg_PROCESSES)
      list(APPEND options --processes ${arg_PROCESSES})
    endif()
  elseif(arg_PROCESSES)
    lci_launcher(launcher ${arg_TIMEOUT})
    set(arg_COMMAND ${launcher} -n ${arg_PROCESSES} ${arg_COMMAND})
  endif()
  # One boot for all that are alike; what runs for long, or breaks its machine, has one of its own.
  if(NOT arg_LONG)
    list(APPEND options --keep)
  endif()
  # Counts of what ran are written beside the objects. Two machines would write the same files.
  if(CMAKE_CXX_FLAGS MATCHES "--coverage" AND NOT arg_PAIR)
    list(APPEND options --writable ${PROJECT_BINARY_DIR})
  endif()
  set(long FULL)
  if(arg_LONG)
    set(long LONG)
  endif()
  # The machines' own limit comes first: it says what they did last.
  math(EXPR limit "${arg_TIMEOUT} + 60")
  set(expect "")
  if(arg_EXPECT)
    set(expect ${PROJECT_SOURCE_DIR}/tests/support/expect.sh ${arg_EXPECT} --)
  endif()
  lci_test(${name} ${long} TIMEOUT ${limit} COMMAND ${expect} ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/vm/vm.py
           ${mode} ${options} -- ${arg_COMMAND})
  if(arg_EXPECT)
    # No machine: that is all that there is to read, and a status that was not expected. A command that is skipped
    # inside fails, because nothing is seen of what should be.
    set_property(TEST ${name} PROPERTY SKIP_REGULAR_EXPRESSION "^vm: [^\n]*\nexpect.sh: exit status 77 ")
  endif()
  lci_in_vm(${name})
endfunction()
