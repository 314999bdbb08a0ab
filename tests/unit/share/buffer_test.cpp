#include "lci/buffer.hpp"

#include <sys/mman.h>

#include <cstring>

#include "lci.hpp"
#include "tests/support/leak_guard.hpp"
#include "tests/unit/share/owner_process.hpp"

namespace lci::share {
namespace {

// The page of exports stays open for good, so it is made before a test looks at what is left.
class buffer_test : public testing::Test {
 protected:
  buffer_test() { buffer::create(1).export_handle(); }
};

char* bytes_of(const buffer& b) { return static_cast<char*>(b.data()); }

// An owner that exports a part, shows what is in it at the end, and lives until it is told.
void own(talk t) {
  buffer whole = buffer::create(16 * PAGE);
  std::memset(whole.data(), 'a', whole.size());
  buffer part = whole.slice(PAGE + 8, 100);
  std::strcpy(bytes_of(part), "from the owner");
  t.say(part.export_handle());
  EXPECT_EQ(t.hear(), "written");
  EXPECT_STREQ(bytes_of(part), "from the importer");
  EXPECT_EQ(bytes_of(whole)[PAGE + 7], 'a');
  t.say("seen");
  t.hear();
}

TEST_F(buffer_test, create__host_memory_is_zeroed_and_described) {
  const test::leak_guard guard;
  buffer b = buffer::create(3 * PAGE + 1);
  EXPECT_TRUE(b);
  EXPECT_FALSE(b.is_gpu());
  EXPECT_EQ(b.device(), buffer::HOST);
  EXPECT_EQ(b.size(), 3 * PAGE + 1);
  EXPECT_EQ(bytes_of(b)[3 * PAGE], 0);
  EXPECT_EQ(b.describe(), "12289 bytes of host memory of a memory file");
  b.sync(buffer_sync::before);
  b.sync(buffer_sync::after);
  b.check();
}

TEST_F(buffer_test, create__what_cannot_be_is_refused) {
  EXPECT_THROW(buffer::create(0), argument_error);
  EXPECT_THROW(buffer::create(~std::size_t{0}), backend_error);
  EXPECT_THROW(buffer::create(std::size_t{1} << 62), backend_error);
  EXPECT_THROW(buffer::create(1, 1000), backend_error);
  EXPECT_THROW(buffer::create(1, -7), backend_error);
}

TEST_F(buffer_test, wrap__never_frees_and_host_memory_is_not_exported) {
  char mine[100] = "mine";
  {
    buffer b = buffer::wrap(mine + 3, 50);
    EXPECT_EQ(b.data(), mine + 3);
    EXPECT_FALSE(b.is_gpu());
    EXPECT_EQ(fault_of([&] { b.export_handle(); }), buffer_fault::not_exportable);
  }
  EXPECT_STREQ(mine, "mine");
  EXPECT_THROW(buffer::wrap(nullptr, 1), argument_error);
  EXPECT_THROW(buffer::wrap(mine, 0), argument_error);
}

TEST_F(buffer_test, move__leaves_nothing_behind) {
  buffer a = buffer::create(PAGE);
  const std::string handle = a.export_handle();
  buffer b = std::move(a);
  EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move): that is the question
  EXPECT_EQ(a.size(), 0u);
  EXPECT_EQ(b.export_handle(), handle);
  b = buffer();
  EXPECT_EQ(fault_of([&] { buffer::import(handle); }), buffer_fault::stale);
  EXPECT_THROW(b.export_handle(), argument_error);
  b.revoke();
  b.check();
  EXPECT_EQ(b.describe(), "no memory");
}

TEST_F(buffer_test, slice__is_inside_and_keeps_the_memory) {
  buffer part;
  {
    buffer whole = buffer::create(2 * PAGE);
    part = whole.slice(PAGE, PAGE).slice(1, 10);
    EXPECT_EQ(bytes_of(part), bytes_of(whole) + PAGE + 1);
    EXPECT_THROW(whole.slice(0, 2 * PAGE + 1), argument_error);
    EXPECT_THROW(whole.slice(2 * PAGE, 1), argument_error);
    EXPECT_THROW(whole.slice(~std::size_t{0}, 2), argument_error);
    EXPECT_THROW(whole.slice(1, ~std::size_t{0}), argument_error);
    EXPECT_THROW(whole.slice(0, 0), argument_error);
  }
  std::memset(part.data(), 'x', part.size());
  EXPECT_NE(part.describe().find("a part of 8192"), std::string::npos);
}

TEST_F(buffer_test, import__of_this_process_is_the_same_memory) {
  const test::leak_guard guard;
  buffer whole = buffer::create(2 * PAGE);
  buffer part = whole.slice(100, 50);
  buffer again = buffer::import(part.export_handle());
  EXPECT_EQ(again.data(), part.data());
  EXPECT_EQ(again.size(), 50u);
  EXPECT_FALSE(again.is_imported());
  EXPECT_EQ(buffer::import(whole.export_handle()).data(), whole.data());
}

TEST_F(buffer_test, import__shares_the_bytes_both_ways) {
  const test::leak_guard guard;
  const std::size_t mapped = count_mappings();
  {
    owner_process owner(own);
    const std::string handle = owner.with().hear();
    buffer b = buffer::import(handle);
    EXPECT_TRUE(b.is_imported());
    EXPECT_EQ(b.size(), 100u);
    EXPECT_STREQ(bytes_of(b), "from the owner");
    std::strcpy(bytes_of(b), "from the importer");
    owner.with().say("written");
    EXPECT_EQ(owner.with().hear(), "seen");
    b.check();
    EXPECT_EQ(b.export_handle(), handle);
    EXPECT_EQ(fault_of([&] { b.slice(1, 1).export_handle(); }), buffer_fault::not_exportable);
    EXPECT_NE(b.describe().find("host memory of pid " + std::to_string(owner.pid())),
              std::string::npos)
        << b.describe();
  }
  EXPECT_EQ(count_mappings(), mapped);
}

TEST_F(buffer_test, import__again_is_the_same_mapping) {
  owner_process owner([](talk t) {
    buffer b = buffer::create(PAGE);
    t.say(b.export_handle());
    t.hear();
  });
  const std::string handle = owner.with().hear();
  buffer first = buffer::import(handle);
  EXPECT_EQ(buffer::import(handle).data(), first.data());
  const std::size_t mapped = count_mappings();
  first = buffer();
  EXPECT_EQ(count_mappings(), mapped - 2);  // the memory, and the owner's page
  buffer::keep_imports(1);
  void* const at = buffer::import(handle).data();
  EXPECT_EQ(buffer::import(handle).data(), at);
  EXPECT_EQ(count_mappings(), mapped);
  buffer::keep_imports(0);
  EXPECT_EQ(count_mappings(), mapped - 2);
}

TEST_F(buffer_test, revoke__refuses_new_imports_and_is_told_to_old_ones) {
  owner_process owner([](talk t) {
    buffer b = buffer::create(PAGE);
    std::strcpy(bytes_of(b), "still there");
    t.say(b.export_handle());
    t.hear();
    b.revoke();
    t.say(b.export_handle());
    t.hear();
  });
  const std::string handle = owner.with().hear();
  buffer old = buffer::import(handle);
  owner.with().say("revoke");
  const std::string anew = owner.with().hear();
  EXPECT_NE(anew, handle);
  EXPECT_EQ(fault_of([&] { old.check(); }), buffer_fault::stale);
  EXPECT_STREQ(bytes_of(old), "still there");
  EXPECT_EQ(fault_of([&] { buffer::import(handle); }), buffer_fault::stale);
  EXPECT_STREQ(bytes_of(buffer::import(anew)), "still there");
}

TEST_F(buffer_test, owner_that_dies__is_told_and_the_mapping_stays) {
  const test::leak_guard guard;
  owner_process owner([](talk t) {
    buffer b = buffer::create(PAGE);
    std::strcpy(bytes_of(b), "still there");
    t.say(b.export_handle());
    t.hear();
  });
  const std::string handle = owner.with().hear();
  {
    buffer b = buffer::import(handle);
    owner.leave_zombie();
    EXPECT_EQ(fault_of([&] { b.check(); }), buffer_fault::owner_gone);
    EXPECT_EQ(fault_of([&] { buffer::import(handle); }), buffer_fault::owner_gone);
    owner.kill();
    EXPECT_EQ(fault_of([&] { b.check(); }), buffer_fault::owner_gone);
    EXPECT_EQ(fault_of([&] { buffer::import(handle); }), buffer_fault::owner_gone);
    EXPECT_STREQ(bytes_of(b), "still there");
  }
  EXPECT_EQ(fault_of([&] { buffer::import(handle); }), buffer_fault::owner_gone);
}

TEST_F(buffer_test, fork__a_child_withdraws_nothing_and_exports_its_own) {
  buffer b = buffer::create(PAGE);
  const std::string handle = b.export_handle();
  owner_process child([&](talk t) {
    buffer mine = std::move(b);
    EXPECT_EQ(buffer::import(handle).size(), PAGE);  // of its parent
    mine = buffer();
    buffer other = buffer::create(2 * PAGE);
    t.say(other.export_handle());
    t.hear();
  });
  const std::string childs = child.with().hear();
  EXPECT_EQ(buffer::import(childs).size(), 2 * PAGE);
  EXPECT_EQ(buffer::import(handle).data(), b.data());
}

TEST_F(buffer_test, fork__a_child_exports_what_it_inherits_by_itself) {
  buffer b = buffer::create(PAGE);
  const std::string handle = b.export_handle();
  owner_process child([&](talk t) {
    const std::string own = b.export_handle();
    EXPECT_NE(own, handle);
    EXPECT_EQ(b.export_handle(), own);
    t.say(own);
    t.hear();
  });
  EXPECT_EQ(b.export_handle(), handle);
  const buffer there = buffer::import(child.with().hear());
  EXPECT_NE(there.data(), b.data()) << "the child's mapping is another one";
  std::strcpy(bytes_of(b), "of both");
  EXPECT_STREQ(bytes_of(there), "of both");
  child.kill();
  EXPECT_EQ(fault_of([&] { there.check(); }), buffer_fault::owner_gone);
}

// One process that knows nothing of lci's ranks, and one that is a job of one rank.
TEST_F(buffer_test, import__can_be_registered_and_written_by_a_rank) {
  owner_process owner([](talk t) {
    buffer b = buffer::create(16 * PAGE);
    t.say(b.export_handle());
    t.hear();
    EXPECT_STREQ(bytes_of(b) + PAGE, "by a put");
  });
  owner_process rank([&](talk t) {
    buffer b = buffer::import(t.hear());
    g_runtime_init();
    mr_t mr = register_memory(b.data(), b.size());
    const rmr_t rmr = get_rmr(mr);
    char from[] = "by a put";
    status_t status = post_put(0, from, sizeof(from), COMP_NULL, PAGE, rmr);
    while (status.is_retry()) {
      progress();
      status = post_put(0, from, sizeof(from), COMP_NULL, PAGE, rmr);
    }
    EXPECT_TRUE(status.is_done());
    deregister_memory(&mr);
    g_runtime_fina();
    t.say("done");
  });
  rank.with().say(owner.with().hear());
  EXPECT_EQ(rank.with().hear(), "done");
}

TEST_F(buffer_test, export_handle__as_many_as_there_are_slots) {
  std::vector<buffer> all;
  buffer one = buffer::create(PAGE);
  while (all.size() < SLOTS) {
    all.push_back(one.slice(0, 1));
    all.back().export_handle();
  }
  buffer more = one.slice(0, 1);
  EXPECT_EQ(fault_of([&] { more.export_handle(); }), buffer_fault::no_room);
  all.pop_back();
  more.export_handle();
}

}  // namespace
}  // namespace lci::share
