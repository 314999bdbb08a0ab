# Boost headers are the only thing the library cannot be built without. Whatever else is found makes it
# do more; what is missing is said in one line together with what is lost.
find_package(Boost 1.74 REQUIRED)
if(LCI_IS_ROOT)
  find_package(Threads REQUIRED) # for tests and examples; the library names pthread itself
endif()

function(lci_optional name header library loss)
  find_path(LCI_${name}_INCLUDE_DIR ${header})
  find_library(LCI_${name}_LIBRARY ${library})
  mark_as_advanced(LCI_${name}_INCLUDE_DIR LCI_${name}_LIBRARY)
  if(LCI_${name}_INCLUDE_DIR AND LCI_${name}_LIBRARY)
    set(LCI_HAVE_${name} 1 PARENT_SCOPE)
  else()
    set(LCI_HAVE_${name} 0 PARENT_SCOPE)
    message(STATUS "lci: no ${library} (${header}): ${loss}")
  endif()
endfunction()

lci_optional(HWLOC hwloc.h hwloc "cards are placed by the kernel's files alone")
lci_optional(SODIUM sodium.h sodium "the tcp bootstrap has no keys and binds to loopback only")

# The backends load their libraries at run time, so a build needs the headers alone, and what was built
# starts where the libraries are missing.
if("ibv" IN_LIST LCI_NETWORK_BACKENDS OR "IBV" IN_LIST LCI_NETWORK_BACKENDS)
  find_package(IBV QUIET)
  set(LCI_HAVE_IBV ${IBV_FOUND})
  if(NOT IBV_FOUND)
    message(STATUS "lci: no libibverbs (infiniband/verbs.h): no InfiniBand and no RoCE")
  endif()
endif()
if("ofi" IN_LIST LCI_NETWORK_BACKENDS OR "OFI" IN_LIST LCI_NETWORK_BACKENDS)
  find_package(OFI QUIET)
  set(LCI_HAVE_OFI ${OFI_FOUND})
  if(NOT OFI_FOUND)
    message(STATUS "lci: no libfabric (rdma/fabric.h): no networks of libfabric")
  endif()
endif()
