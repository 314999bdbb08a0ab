# The installed package: libraries, headers, CMake and pkg-config files, programs.
include(CMakePackageConfigHelpers)

set(LCI_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/LCI)

function(lci_install)
  set(targets LCT)
  if(NOT LCI_WITH_LCT_ONLY)
    list(APPEND targets LCI)
  endif()
  install(TARGETS ${targets} EXPORT LCITargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
          RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(EXPORT LCITargets NAMESPACE LCI:: DESTINATION ${LCI_CMAKE_DIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ ${LCI_GENERATED_INCLUDE_DIR}/
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h" PATTERN "*.cuh")
  # Header-only code for kernels, which includes nothing else of lci but public headers.
  if(NOT LCI_WITH_LCT_ONLY)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/lci/wqe ${PROJECT_SOURCE_DIR}/lci/gpu
            DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lci
            FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h" PATTERN "*.cuh")
  endif()

  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake_modules/LCIConfig.cmake.in
                                ${PROJECT_BINARY_DIR}/LCIConfig.cmake
                                INSTALL_DESTINATION ${LCI_CMAKE_DIR}
                                PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/LCIConfigVersion.cmake
                                   VERSION ${PROJECT_VERSION} COMPATIBILITY SameMajorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/LCIConfig.cmake ${PROJECT_BINARY_DIR}/LCIConfigVersion.cmake
          DESTINATION ${LCI_CMAKE_DIR})

  # Paths relative to the file itself, so that an installed tree can be moved; a folder that was given as an absolute
  # one stays where it is.
  if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
    set(LCI_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
  else()
    file(RELATIVE_PATH LCI_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
    string(REGEX REPLACE "/$" "" LCI_PC_PREFIX "\${pcfiledir}/${LCI_PC_PREFIX}")
  endif()
  foreach(folder LIBDIR INCLUDEDIR)
    set(LCI_PC_${folder} ${CMAKE_INSTALL_${folder}})
    if(NOT IS_ABSOLUTE ${CMAKE_INSTALL_${folder}})
      set(LCI_PC_${folder} "\${prefix}/${CMAKE_INSTALL_${folder}}")
    endif()
  endforeach()
  # A shared library brings its own dependencies; a static one needs them on the client's link line.
  set(LCI_PC_LIBS "")
  foreach(library ${LCI_SYSTEM_LIBRARIES})
    get_filename_component(name ${library} NAME_WE)
    string(REGEX REPLACE "^lib" "" name ${name})
    get_filename_component(folder ${library} DIRECTORY)
    if(folder AND NOT folder IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
      string(APPEND LCI_PC_LIBS " -L${folder}")
    endif()
    string(APPEND LCI_PC_LIBS " -l${name}")
  endforeach()
  set(LCI_PC_LIBS_PRIVATE "${LCI_PC_LIBS} -lstdc++")
  if(BUILD_SHARED_LIBS)
    set(LCI_PC_LIBS "")
  endif()
  foreach(file liblci liblct)
    if(file STREQUAL liblct OR NOT LCI_WITH_LCT_ONLY)
      configure_file(${PROJECT_SOURCE_DIR}/cmake_modules/${file}.pc.in
                     ${PROJECT_BINARY_DIR}/${file}.pc @ONLY)
      install(FILES ${PROJECT_BINARY_DIR}/${file}.pc
              DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    endif()
  endforeach()
endfunction()

# Programs of a folder: those of tools/ under their own name, others with the prefix lci_. What a build
# keeps to itself sets the target property EXCLUDE_FROM_ALL, or stays out of tools/ and examples/.
function(lci_install_programs folder)
  set(folders ${PROJECT_SOURCE_DIR}/${folder})
  while(folders)
    list(GET folders 0 current)
    list(REMOVE_AT folders 0)
    get_property(children DIRECTORY ${current} PROPERTY SUBDIRECTORIES)
    list(APPEND folders ${children})
    get_property(targets DIRECTORY ${current} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target ${targets})
      get_target_property(type ${target} TYPE)
      get_target_property(skipped ${target} EXCLUDE_FROM_ALL)
      if(type STREQUAL EXECUTABLE AND NOT skipped)
        get_target_property(name ${target} OUTPUT_NAME)
        if(NOT name)
          set(name ${target})
        endif()
        if(NOT folder STREQUAL tools AND NOT name MATCHES "^lci_")
          set(name lci_${name})
        endif()
        # A build of some targets only can be installed too. In a parent's build programs have a run path to the library
        # there, which is replaced only where the target itself is installed, and that has one name.
        if(LCI_IS_ROOT)
          install(PROGRAMS $<TARGET_FILE:${target}> DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME ${name}
                  OPTIONAL)
        else()
          set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} INSTALL_RPATH "${LCI_INSTALLED_RPATH}")
          install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL)
        endif()
      endif()
    endforeach()
  endwhile()
endfunction()
