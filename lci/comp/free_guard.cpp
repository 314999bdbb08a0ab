#include "lci/comp/free_guard.hpp"

#include <atomic>
#include <mutex>

#include "lci/base/spinlock.hpp"

namespace lci::comp {
namespace {

struct all_guards {
  base::spinlock lock;  // guards the list
  free_guard* first = nullptr;
  std::atomic<int> count{0};  // of the list; written under lock
};
constinit all_guards all;

}  // namespace

void free_guard::hold(const comp_impl_t& object, const char* by, const void* of) noexcept {
  let_go();
  const std::lock_guard guard(all.lock);
  object_ = &object;
  by_ = by;
  of_ = of;
  next_ = all.first;
  if (next_ != nullptr) next_->link_ = &next_;
  link_ = &all.first;
  all.first = this;
  // Relaxed: a thread that frees a held object got it, directly or not, from the thread that holds
  // it.
  all.count.fetch_add(1, std::memory_order_relaxed);
}

void free_guard::let_go() noexcept {
  if (by_ == nullptr) return;  // never held anything
  const std::lock_guard guard(all.lock);
  unlink_locked();
}

void free_guard::unlink_locked() noexcept {
  if (object_ == nullptr) return;
  *link_ = next_;
  if (next_ != nullptr) next_->link_ = link_;
  object_ = nullptr;
  all.count.fetch_sub(1, std::memory_order_relaxed);
}

held held::find(const comp_impl_t& object) noexcept {
  if (all.count.load(std::memory_order_relaxed) == 0) return {};
  const std::lock_guard guard(all.lock);
  for (const free_guard* h = all.first; h != nullptr; h = h->next_)
    if (h->object_ == &object) return {h->by_, h->of_};
  return {};
}

void forget_free_guards(const void* of) noexcept {
  const std::lock_guard guard(all.lock);
  for (free_guard* h = all.first; h != nullptr;) {
    free_guard* const next = h->next_;
    if (h->of_ == of) h->unlink_locked();
    h = next;
  }
}

}  // namespace lci::comp
