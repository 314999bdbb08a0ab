// A client library that is opened when it is needed, and its functions by name.
// Callers: the bootstraps over libpmi, libpmix and MPI. Threads: single. Always true: an opened
// library stays loaded, because these libraries have threads and handlers of their own.
#pragma once

#include <initializer_list>
#include <string>

namespace lci::boot {

class dynamic_library {
 public:
  dynamic_library() noexcept = default;
  // The first of `names` that opens; otherwise why_not() holds the loader's error for each.
  // `global`: the library's plugins find its symbols.
  static dynamic_library open(std::initializer_list<std::string> names, bool global = false);
  // The libraries that the program itself has loaded.
  static dynamic_library of_program() noexcept;

  explicit operator bool() const noexcept { return open_; }
  const std::string& why_not() const noexcept { return why_not_; }
  const std::string& name() const noexcept { return name_; }
  void* find(const char* symbol) const noexcept;
  // Throws backend_error when the library lacks it.
  template <class Function>
  void need(Function& function, const char* symbol) const {
    function = reinterpret_cast<Function>(find_or_throw(symbol));
  }

 private:
  void* find_or_throw(const char* symbol) const;

  bool open_ = false;
  void* handle_ = nullptr;
  std::string name_, why_not_;
};

}  // namespace lci::boot
