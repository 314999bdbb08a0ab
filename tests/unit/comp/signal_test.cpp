#include "lci/comp/signal.hpp"

#include <gtest/gtest.h>

#include <string>

#include "lci/errors.hpp"
#include "tests/support/alloc_counter.hpp"

using lci::attr_comp_type_t;
using lci::comp_attr_t;
using lci::comp_impl_t;
using lci::comp_t;
using lci::errorcode_t;
using lci::status_t;
using lci::base::free_live;
using lci::base::make_live;
namespace comp = lci::comp;

namespace {

// An object as the alloc functions make it. (Of one on the stack the compiler knows the class, and
// warns about the casts to others.)
template <class T>
class live {
 public:
  template <class... Args>
  explicit live(Args&&... args) : object_(make_live<T>(std::forward<Args>(args)...)) {}
  ~live() { free_live(object_, "comp"); }
  live(const live&) = delete;
  live& operator=(const live&) = delete;
  T* operator->() const { return object_; }
  T* get() const { return object_; }

 private:
  T* object_;
};

struct custom : comp_impl_t {
  using comp_impl_t::comp_impl_t;
  void signal(status_t status) override {
    ++signals;
    last = status;
  }
  int signals = 0;
  status_t last;
};

int handled = 0;
void count_tags(status_t status) { handled += static_cast<int>(status.tag); }

status_t tagged(lci::tag_t tag) {
  status_t s = errorcode_t::done;
  s.tag = tag;
  return s;
}

template <class Fn>
std::string error_of(Fn&& fn) {
  try {
    fn();
  } catch (const lci::argument_error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST(signal, counter__adds_one) {
  live<comp::counter> c{comp_attr_t()};
  comp::signal(c.get(), tagged(1));
  EXPECT_EQ(c->get(), 1);
}

TEST(signal, sync__stores_the_status) {
  live<comp::sync> s{comp_attr_t()};
  comp::signal(s.get(), tagged(7));
  status_t out;
  ASSERT_TRUE(s->test(&out));
  EXPECT_EQ(out.tag, 7u);
}

TEST(signal, queue__pushes_the_status) {
  live<comp::queue> q{comp_attr_t()};
  comp::signal(q.get(), tagged(7));
  EXPECT_EQ(q->pop().tag, 7u);
}

TEST(signal, handler__runs_the_function_in_this_thread) {
  live<comp::handler> h(comp_attr_t(), &count_tags);
  handled = 0;
  comp::signal(h.get(), tagged(7));
  h->signal(tagged(2));
  EXPECT_EQ(handled, 9);
}

TEST(signal, handler__without_function_cannot_be_made) {
  EXPECT_THROW(comp::handler(comp_attr_t(), nullptr), lci::argument_error);
}

TEST(signal, handler__exception_of_the_function_propagates) {
  live<comp::handler> h(comp_attr_t(), [](status_t) { throw 42; });
  EXPECT_THROW(comp::signal(h.get(), tagged(7)), int);
}

TEST(signal, custom__goes_through_the_virtual_function) {
  custom c;
  comp::signal(&c, tagged(7));
  EXPECT_EQ(c.signals, 1);
  EXPECT_EQ(c.last.tag, 7u);
}

// A program may start from the attributes of any object, and is no queue for that.
TEST(signal, custom__with_the_attributes_of_a_queue_is_none) {
  comp_attr_t attr;
  attr.serial = 5;
  attr.zero_copy_am = true;
  const live<comp::queue> cq(attr);
  ASSERT_EQ(cq->attr.comp_type, attr_comp_type_t::cq);
  ASSERT_EQ(cq->attr.serial, 5u);
  custom c(cq->attr);
  ASSERT_EQ(c.attr.comp_type, attr_comp_type_t::custom);
  EXPECT_EQ(c.attr.serial, 0u);
  EXPECT_TRUE(c.attr.zero_copy_am);
  comp::signal(&c, tagged(7));
  EXPECT_EQ(c.signals, 1);
}

TEST(signal, freed_object__typed_error_for_every_kind) {
  comp_attr_t attr;
  comp_impl_t* freed[5];
  const auto free_now = [](auto* object) {
    comp_impl_t* const base = object;
    free_live(object, "comp");
    return base;
  };
  freed[0] = free_now(make_live<comp::counter>(attr));
  freed[1] = free_now(make_live<comp::sync>(attr));
  freed[2] = free_now(make_live<comp::queue>(attr));
  freed[3] = free_now(make_live<comp::handler>(attr, &count_tags));
  freed[4] = free_now(make_live<comp::graph>(attr, comp_t()));
  for (comp_impl_t* object : freed) {
    const std::string text = error_of([&] { comp::signal(object, tagged(1)); });
    EXPECT_NE(text.find("was freed"), std::string::npos) << text;
    EXPECT_NE(error_of([&] { object->signal(tagged(1)); }).find("was freed"), std::string::npos);
    EXPECT_NE(error_of([&] { comp::any(comp_t(object), "free_comp"); }).find("free_comp"),
              std::string::npos);
    EXPECT_NE(
        error_of([&] { comp::as<comp::counter>(comp_t(object), "counter_get"); }).find("was freed"),
        std::string::npos);
  }
}

TEST(as, wrong_kind__names_both_kinds_and_the_operation) {
  live<comp::counter> c{comp_attr_t()};
  const std::string text = error_of([&] { comp::as<comp::queue>(comp_t(c.get()), "cq_pop"); });
  for (const char* part : {"cq_pop", "counter", "completion queue"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(as, right_kind__is_the_object) {
  live<comp::counter> c{comp_attr_t()};
  EXPECT_EQ(&comp::as<comp::counter>(comp_t(c.get()), "counter_get"), c.get());
  EXPECT_EQ(&comp::any(comp_t(c.get()), "signal"), c.get());
}

TEST(as, empty_handles__are_refused_as_empty) {
  for (const comp_t& empty : {comp_t(), lci::COMP_NULL_RETRY}) {
    EXPECT_NE(error_of([&] { comp::as<comp::queue>(empty, "cq_pop"); }).find("empty"),
              std::string::npos);
    EXPECT_NE(error_of([&] { comp::any(empty, "comp_signal"); }).find("empty"), std::string::npos);
  }
}

TEST(name_of, every_kind__has_a_name_of_its_own) {
  const auto last = static_cast<int>(attr_comp_type_t::custom);
  for (int i = 0; i <= last; ++i) {
    ASSERT_NE(comp::name_of(static_cast<attr_comp_type_t>(i)), nullptr) << i;
    for (int j = 0; j < i; ++j)
      EXPECT_STRNE(comp::name_of(static_cast<attr_comp_type_t>(i)),
                   comp::name_of(static_cast<attr_comp_type_t>(j)));
  }
  EXPECT_EQ(comp::name_of(static_cast<attr_comp_type_t>(last + 1)), nullptr);
}

TEST(signal, small_kinds__no_heap) {
  if (!lci::test::has_alloc_counter()) GTEST_SKIP() << lci::test::ALLOC_COUNTER_MISSING;
  live<comp::counter> c{comp_attr_t()};
  live<comp::sync> s{comp_attr_t()};
  live<comp::queue> q{comp_attr_t()};
  const lci::test::alloc_counter heap;
  for (int i = 0; i < 10000; ++i) {
    comp::signal(c.get(), tagged(1));
    comp::signal(s.get(), tagged(1));
    comp::signal(q.get(), tagged(1));
    status_t out;
    ASSERT_TRUE(s->test(&out));
    ASSERT_TRUE(q->pop().is_done());
  }
  EXPECT_EQ(heap.calls(), 0u);
}
