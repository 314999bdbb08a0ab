// Takes a step of a set-up back unless the rest of the set-up succeeds. A local variable of the
// function that takes the step, right after it. Threads: single. Always true: runs once or, after
// keep(), never.
#pragma once

#include <utility>
#include <vector>

namespace lci::base {

template <class F>
class undo {
 public:
  // `back` must not throw: it runs while an exception is under way.
  explicit undo(F back) : back_(std::move(back)) {}
  ~undo() {
    if (armed_) back_();
  }
  undo(const undo&) = delete;
  undo& operator=(const undo&) = delete;
  // The set-up is complete.
  void keep() noexcept { armed_ = false; }

 private:
  F back_;
  bool armed_ = true;
};

// After it, the next push_back() cannot fail: code that registers an object first reserves the
// place and fills it when nothing can fail any more. Throws std::bad_alloc.
template <class T>
void make_room(std::vector<T>& list) {
  list.emplace_back();
  list.pop_back();
}

}  // namespace lci::base
