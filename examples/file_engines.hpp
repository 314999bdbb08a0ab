// How bytes of a file get into memory: io_uring where the program was built with liburing and the
// kernel allows it, cuFile for GPU memory where its library is found, else threads that call
// pread(). You can copy this file into other programs, together with file_ring.hpp. Threads: an
// engine has one user at a time. Always true: every read that was started is reported once, with
// its whole size, the bytes up to the end of the file, or a negative errno value. The caller that
// makes an engine gets its exceptions, those of the engine's threads included.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#ifdef FILE_RING_HAS_URING
#include <liburing.h>
#endif

struct file_read {
  size_t slot = 0;  // names the read when its end is reported
  char* to = nullptr;
  size_t size = 0;
  uint64_t offset = 0;  // in the file
};

struct file_read_done {
  size_t slot = 0;
  int64_t bytes = 0;  // or a negative errno value
};

class file_engine_t {
 public:
  virtual ~file_engine_t() = default;
  virtual void start(const std::vector<file_read>& reads) = 0;
  // Appends what has ended; `wait`: at least one, if any is under way.
  virtual void reap(std::vector<file_read_done>& done, bool wait) = 0;
  virtual std::string describe() const = 0;
};

// Threads that read by a function of the caller: pread() or a call like it.
class threads_engine_t : public file_engine_t {
 public:
  // read: into memory, size, offset; bytes, 0 at the end of the file, or a negative errno value.
  typedef std::function<int64_t(char*, size_t, uint64_t)> read_t;

  threads_engine_t(unsigned threads, std::string what, read_t read,
                   std::function<void()> at_start = {})
      : what_(std::move(what)), read_(std::move(read)) {
    try {
      for (unsigned i = 0; i < (threads == 0 ? 1 : threads); ++i) {
        threads_.emplace_back([this, at_start] {
          if (begin(at_start)) work();
        });
      }
      wait_for_threads();
    } catch (...) {
      end();
      throw;
    }
  }
  ~threads_engine_t() override { end(); }
  void start(const std::vector<file_read>& reads) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      reads_.insert(reads_.end(), reads.begin(), reads.end());
      under_way_ += reads.size();
    }
    work_.notify_all();
  }
  void reap(std::vector<file_read_done>& done, bool wait) override {
    std::unique_lock<std::mutex> lock(mutex_);
    if (wait) ended_.wait(lock, [this] { return !done_.empty() || under_way_ == 0; });
    done.insert(done.end(), done_.begin(), done_.end());
    done_.clear();
  }
  std::string describe() const override {
    return what_ + " by " + std::to_string(threads_.size()) + " threads";
  }

 private:
  // In each thread; false: it cannot read.
  bool begin(const std::function<void()>& at_start) {
    std::exception_ptr failure;
    try {
      if (at_start) at_start();
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    ++begun_;
    if (failure) failure_ = failure;
    ended_.notify_one();
    return !failure;
  }
  void wait_for_threads() {
    std::unique_lock<std::mutex> lock(mutex_);
    ended_.wait(lock, [this] { return begun_ == threads_.size(); });
    if (failure_) std::rethrow_exception(failure_);
  }
  void end() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ends_ = true;
    }
    work_.notify_all();
    for (std::thread& each : threads_) each.join();
  }
  void work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      work_.wait(lock, [this] { return ends_ || !reads_.empty(); });
      if (reads_.empty()) return;
      const file_read one = reads_.front();
      reads_.pop_front();
      lock.unlock();
      const file_read_done done{one.slot, read_all(one)};
      lock.lock();
      done_.push_back(done);
      --under_way_;
      ended_.notify_one();
    }
  }
  int64_t read_all(const file_read& one) {
    size_t got = 0;
    while (got < one.size) {
      int64_t part = -EIO;
      try {
        part = read_(one.to + got, one.size - got, one.offset + got);
      } catch (const std::exception&) {  // nobody could catch it here: an error like others
      }
      if (part == -EINTR) continue;
      if (part < 0) return part;
      if (part == 0) break;
      got += static_cast<size_t>(part);
    }
    return static_cast<int64_t>(got);
  }

  const std::string what_;
  const read_t read_;
  std::mutex mutex_;  // guards the rest
  std::condition_variable work_, ended_;
  std::deque<file_read> reads_;
  std::deque<file_read_done> done_;
  size_t under_way_ = 0;
  size_t begun_ = 0;  // threads
  std::exception_ptr failure_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

inline std::unique_ptr<file_engine_t> make_pread_engine(int file, unsigned threads,
                                                        const std::string& why = "") {
  return std::make_unique<threads_engine_t>(
      threads, "pread" + why, [file](char* to, size_t size, uint64_t offset) -> int64_t {
        const ssize_t got = pread(file, to, size, static_cast<off_t>(offset));
        return got < 0 ? -errno : got;
      });
}

#ifdef FILE_RING_HAS_URING
// One ring. With more than one thread, reads are handed to that many workers of the kernel; else
// what is in the page cache is copied by the thread that submits.
class uring_engine_t : public file_engine_t {
 public:
  uring_engine_t(int file, unsigned depth, unsigned threads) : file_(file), threads_(threads) {
    const int error = io_uring_queue_init(depth, &ring_, 0);
    if (error < 0) throw std::runtime_error(std::string("io_uring: ") + std::strerror(-error));
    unsigned most[2] = {threads, threads};
    if (threads > 1) io_uring_register_iowq_max_workers(&ring_, most);
    reads_.resize(depth);
  }
  ~uring_engine_t() override {
    std::vector<file_read_done> rest;
    while (under_way_ != 0) reap(rest, true);
    io_uring_queue_exit(&ring_);
  }
  void start(const std::vector<file_read>& reads) override {
    for (const file_read& one : reads) {
      reads_.at(one.slot) = {one, 0};
      put(one.slot);
    }
    under_way_ += reads.size();
    hand_over();
  }
  void reap(std::vector<file_read_done>& done, bool wait) override {
    const size_t before = done.size();
    while (under_way_ != 0) {
      hand_over();
      io_uring_cqe* entry = nullptr;
      const bool must = wait && done.size() == before;
      // Reads that the kernel has not accepted are never reported.
      const bool can_sleep = must && io_uring_sq_ready(&ring_) < under_way_;
      const int error =
          can_sleep ? io_uring_wait_cqe(&ring_, &entry) : io_uring_peek_cqe(&ring_, &entry);
      if (error == -EAGAIN && must) std::this_thread::yield();
      if (error == -EINTR || (error == -EAGAIN && must)) continue;
      if (error != 0) return;
      const size_t slot = io_uring_cqe_get_data64(entry);
      const int result = entry->res;
      io_uring_cqe_seen(&ring_, entry);
      take(slot, result, done);
    }
  }
  std::string describe() const override {
    return threads_ > 1 ? "io_uring with " + std::to_string(threads_) + " workers of the kernel"
                        : std::string("io_uring");
  }

 private:
  struct row {
    file_read what;
    size_t got;
  };
  void put(size_t slot) {
    const row& one = reads_[slot];
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);  // there is room for each slot once
    io_uring_prep_read(entry, file_, one.what.to + one.got,
                       static_cast<unsigned>(one.what.size - one.got), one.what.offset + one.got);
    if (threads_ > 1) entry->flags |= IOSQE_ASYNC;
    io_uring_sqe_set_data64(entry, slot);
  }
  // The kernel may take only some, or none for now (-EAGAIN); the rest stays in the queue.
  void hand_over() {
    while (io_uring_sq_ready(&ring_) != 0 && io_uring_submit(&ring_) > 0) continue;
  }
  void take(size_t slot, int result, std::vector<file_read_done>& done) {
    row& one = reads_[slot];
    if (result > 0) one.got += static_cast<size_t>(result);
    const bool again = result == -EINTR || result == -EAGAIN;
    if (again || (result > 0 && one.got < one.what.size)) {
      put(slot);  // reap() hands it over
      return;
    }
    --under_way_;
    done.push_back({slot, result < 0 ? result : static_cast<int64_t>(one.got)});
  }

  const int file_;
  const unsigned threads_;
  io_uring ring_{};
  std::vector<row> reads_;  // by slot
  size_t under_way_ = 0;
};
#endif

// NVIDIA's GPUDirect Storage, without its headers. It reads into GPU memory, without staging where
// the file system supports that.
class cufile_library_t {
 public:
  // Throws std::runtime_error.
  explicit cufile_library_t(int file) {
    library_ = dlopen("libcufile.so.0", RTLD_NOW);
    if (library_ == nullptr) throw std::runtime_error(std::string("cuFile: ") + dlerror());
    must("cuFileDriverOpen", call<error_t>("cuFileDriverOpen"));
    descriptor_t about{OPAQUE_FD, {}, nullptr};
    about.handle.fd = file;
    must("cuFileHandleRegister", call<error_t>("cuFileHandleRegister", &file_, &about));
  }
  ~cufile_library_t() {
    if (file_ != nullptr) call<void>("cuFileHandleDeregister", file_);
  }
  cufile_library_t(const cufile_library_t&) = delete;
  cufile_library_t& operator=(const cufile_library_t&) = delete;
  int64_t read(char* to, size_t size, uint64_t offset) {
    const ssize_t got = call<ssize_t>("cuFileRead", file_, static_cast<void*>(to), size,
                                      static_cast<off_t>(offset), static_cast<off_t>(0));
    return got >= 0 ? got : got == -1 ? -errno : -EIO;
  }

 private:
  static const int OPAQUE_FD = 1;
  struct error_t {
    int code, driver_code;
  };
  struct descriptor_t {
    int type;
    union {
      int fd;
      void* handle;
    } handle;
    const void* operations;
  };
  template <class Result, class... Args>
  Result call(const char* name, Args... args) {
    void* const function = dlsym(library_, name);
    if (function == nullptr) throw std::runtime_error(std::string("cuFile has no ") + name);
    return reinterpret_cast<Result (*)(Args...)>(function)(args...);
  }
  static void must(const char* name, error_t error) {
    if (error.code != 0)
      throw std::runtime_error(std::string(name) + ": error " + std::to_string(error.code));
  }

  void* library_ = nullptr;  // stays loaded
  void* file_ = nullptr;
};

// at_start: makes the GPU's context current in each thread.
inline std::unique_ptr<file_engine_t> make_cufile_engine(int file, unsigned threads,
                                                         std::function<void()> at_start) {
  auto library = std::make_shared<cufile_library_t>(file);
  return std::make_unique<threads_engine_t>(
      threads, "cuFile",
      [library](char* to, size_t size, uint64_t offset) { return library->read(to, size, offset); },
      std::move(at_start));
}
