// The part of the PMIx interface that lci uses, as in the standard since version 2.1: types,
// constants and functions of libpmix.so.2. Declared here, so that a build does not need its header.
// Callers: pmix. Always true: a test compares it with the header where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lci::boot::pmix_abi {

inline constexpr std::size_t MAX_NAMESPACE = 255;
inline constexpr std::size_t MAX_NAME = 511;
inline constexpr std::uint32_t RANK_WILDCARD = UINT32_MAX - 1;
inline constexpr int SUCCESS = 0;
inline constexpr std::uint16_t TYPE_BOOL = 1, TYPE_INT = 6, TYPE_UINT32 = 14, TYPE_BYTES = 27;
inline constexpr std::uint8_t SCOPE_GLOBAL = 3;
inline constexpr char JOB_SIZE[] = "pmix.job.size";
inline constexpr char COLLECT_DATA[] = "pmix.collect";
inline constexpr char TIMEOUT[] = "pmix.timeout";

struct byte_object {
  char* bytes;
  std::size_t size;
};
struct proc {
  char nspace[MAX_NAMESPACE + 1];
  std::uint32_t rank;
};
struct value {
  std::uint16_t type;
  union {
    bool flag;
    int integer;
    std::uint32_t uint32;
    byte_object bytes;
    void* largest[3];
  } data;
};
struct info {
  char key[MAX_NAME + 1];
  std::uint32_t flags;
  struct value value;
};

struct functions {
  int (*init)(proc*, info*, std::size_t) = nullptr;
  int (*finalize)(const info*, std::size_t) = nullptr;
  int (*put)(std::uint8_t scope, const char* key, value*) = nullptr;
  int (*commit)() = nullptr;
  int (*fence)(const proc*, std::size_t, const info*, std::size_t) = nullptr;
  int (*get)(const proc*, const char* key, const info*, std::size_t, value**) = nullptr;
  const char* (*error_string)(int) = nullptr;
};

}  // namespace lci::boot::pmix_abi
