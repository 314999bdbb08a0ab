# Finds libibverbs. Result: IBV_FOUND, IBV_INCLUDE_DIRS, IBV_LIBRARIES, target IBV::IBV.
# IBV_ROOT (variable or environment) names a prefix to look in first.
find_path(IBV_INCLUDE_DIR infiniband/verbs.h HINTS ${IBV_ROOT} $ENV{IBV_ROOT} PATH_SUFFIXES include)
find_library(IBV_LIBRARY ibverbs HINTS ${IBV_ROOT} $ENV{IBV_ROOT} PATH_SUFFIXES lib lib64)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(IBV DEFAULT_MSG IBV_LIBRARY IBV_INCLUDE_DIR)
mark_as_advanced(IBV_INCLUDE_DIR IBV_LIBRARY)

if(IBV_FOUND)
  set(IBV_INCLUDE_DIRS ${IBV_INCLUDE_DIR})
  set(IBV_LIBRARIES ${IBV_LIBRARY})
  if(NOT TARGET IBV::IBV)
    add_library(IBV::IBV UNKNOWN IMPORTED)
    set_target_properties(IBV::IBV PROPERTIES IMPORTED_LOCATION ${IBV_LIBRARY}
                          INTERFACE_INCLUDE_DIRECTORIES ${IBV_INCLUDE_DIR})
  endif()
endif()
