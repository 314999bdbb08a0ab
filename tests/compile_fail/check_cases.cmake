# Compiles one file once without a case, which must succeed, and once per line
#   // case NAME expect: regex
# (one in each #ifdef) with NAME defined, which must fail with a diagnostic that matches the regex.
#
#   cmake -DCOMPILER=g++ -DFILE=post_misuse.cpp -DINCLUDES=a:b -DWORK=folder -P check_cases.cmake
#
# The public header is parsed once, into a folder that is this test's own.

string(REPLACE ":" ";-I" includes "-I${INCLUDES}")
set(command ${COMPILER} -std=c++11 ${includes})
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
file(WRITE ${WORK}/first.hpp "#include \"lci.hpp\"\n")
execute_process(COMMAND ${command} -x c++-header ${WORK}/first.hpp -o ${WORK}/first.hpp.gch COMMAND_ERROR_IS_FATAL ANY)
list(APPEND command -fsyntax-only -include ${WORK}/first.hpp)

# `rc` and `text` of compiling FILE with the given extra arguments.
macro(compile)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C ${command} ${ARGN} ${FILE}
                  RESULT_VARIABLE rc OUTPUT_VARIABLE text ERROR_VARIABLE text)
endmacro()

set(problems "")
compile()
if(NOT rc EQUAL 0)
  string(APPEND problems "without a case: does not compile\n${text}\n")
endif()
file(STRINGS ${FILE} lines REGEX "^ *// case ")
set(count 0)
foreach(line IN LISTS lines)
  if(NOT line MATCHES "^ *// case ([A-Z_]+) expect: (.+)$")
    string(APPEND problems "cannot read: ${line}\n")
    continue()
  endif()
  set(name ${CMAKE_MATCH_1})
  set(expect "${CMAKE_MATCH_2}")
  math(EXPR count "${count} + 1")
  compile(-D${name})
  if(rc EQUAL 0)
    string(APPEND problems "${name}: compiles, but must be refused\n")
  elseif(NOT text MATCHES "error: [^\n]*${expect}")
    string(APPEND problems "${name}: refused, but not with '${expect}':\n${text}\n")
  endif()
endforeach()
file(STRINGS ${FILE} guards REGEX "^#ifdef ")
list(LENGTH guards guard_count)
if(count EQUAL 0 OR NOT count EQUAL guard_count)
  string(APPEND problems "${count} cases in ${guard_count} #ifdef blocks\n")
endif()
if(problems)
  message(FATAL_ERROR "${FILE} with ${COMPILER}:\n${problems}")
endif()
message("${count} cases refused as expected by ${COMPILER}")
