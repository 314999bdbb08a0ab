# Finds libfabric. Result: OFI_FOUND, OFI_INCLUDE_DIRS, OFI_LIBRARIES, target OFI::OFI.
# OFI_ROOT (variable or environment) names a prefix to look in first.
find_path(OFI_INCLUDE_DIR rdma/fabric.h HINTS ${OFI_ROOT} $ENV{OFI_ROOT} PATH_SUFFIXES include)
find_library(OFI_LIBRARY fabric HINTS ${OFI_ROOT} $ENV{OFI_ROOT} PATH_SUFFIXES lib lib64)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OFI DEFAULT_MSG OFI_LIBRARY OFI_INCLUDE_DIR)
mark_as_advanced(OFI_INCLUDE_DIR OFI_LIBRARY)

if(OFI_FOUND)
  set(OFI_INCLUDE_DIRS ${OFI_INCLUDE_DIR})
  set(OFI_LIBRARIES ${OFI_LIBRARY})
  if(NOT TARGET OFI::OFI)
    add_library(OFI::OFI UNKNOWN IMPORTED)
    set_target_properties(OFI::OFI PROPERTIES IMPORTED_LOCATION ${OFI_LIBRARY}
                          INTERFACE_INCLUDE_DIRECTORIES ${OFI_INCLUDE_DIR})
  endif()
endif()
