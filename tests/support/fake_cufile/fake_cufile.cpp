// A libcufile.so.0 without GPUDirect Storage: its reads are pread() into memory that the processor
// reaches. Registered handles are counted, and reads are short now and then, as those of a file
// system may be. Threads: any.
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>

namespace {

struct status {
  int code, driver_code;
};
struct descriptor {
  int type;
  union {
    int fd;
    void* handle;
  } handle;
  const void* operations;
};
struct registered {
  int fd;
};

std::atomic<unsigned> reads{0};

}  // namespace

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

FAKE_EXPORT status cuFileDriverOpen() { return {0, 0}; }

FAKE_EXPORT status cuFileHandleRegister(void** out, const descriptor* what) {
  if (what->type != 1) return {5022, 0};
  *out = new registered{what->handle.fd};
  return {0, 0};
}

FAKE_EXPORT void cuFileHandleDeregister(void* file) { delete static_cast<registered*>(file); }

FAKE_EXPORT ssize_t cuFileRead(void* file, void* base, std::size_t size, off_t offset,
                               off_t inside) {
  const std::size_t most = reads++ % 3 == 0 && size > 512 ? size / 2 : size;
  return pread(static_cast<registered*>(file)->fd, static_cast<char*>(base) + inside, most, offset);
}
