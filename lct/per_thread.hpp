// An object of each thread that destructors of static objects may use as well: the main thread runs
// those when its thread_local objects have ended. What is made that late stays.
// Callers: the sources of this folder. Threads: any; each has its own.
#pragma once

namespace lct {

// T is a type that nobody else asks for.
template <class T>
T& per_thread() {
  static constinit thread_local T* mine = nullptr;  // never ends, as it has no destructor
  struct ending {
    ~ending() {
      delete mine;
      mine = nullptr;
    }
  };
  if (mine == nullptr) {
    static thread_local ending at_end;
    mine = new T;
  }
  return *mine;
}

}  // namespace lct
