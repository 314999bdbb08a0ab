// What is legal although there is nothing to it: graphs without nodes, and numbers of empty
// completion objects.
#include "world.hpp"

namespace interface_test {
namespace {

TEST(nothing, graph_without_nodes__is_complete_when_started) {
  owned_comp graph(lci::alloc_graph());
  EXPECT_FALSE(lci::graph_test(graph).is_done());
  lci::graph_start(graph);
  EXPECT_TRUE(lci::graph_test(graph).is_done());
  owned_comp cq(lci::alloc_cq());
  lci::graph_start(lci::alloc_graph_x().comp(cq)());
  EXPECT_TRUE(lci::cq_pop(cq).is_done()) << "the graph has signalled its object and is gone";
}

// Messages of every size and notifications to such a number are complete for the sender and are
// never heard of.
TEST(nothing, rcomp_of_an_empty_object__drops_what_comes) {
  const lci::rcomp_t rcomp = lci::register_rcomp(lci::COMP_NULL);
  const lci::rcomp_t second = lci::register_rcomp(lci::comp_t());
  EXPECT_EQ(second, rcomp + 1);
  const lci::rcomp_t third = lci::register_rcomp(lci::COMP_NULL_RETRY);
  inbox box;
  window memory(8);
  barrier();
  char word[8] = "da";
  for (int to = 0; to < world().n; ++to) {
    for (const size_at at : ALL_SIZES) {
      std::vector<char> out = pattern(bytes(at), 3);
      for (const lci::rcomp_t number : {rcomp, second, third})
        insist(lci::post_am_x(to, out.data(), out.size(), lci::COMP_NULL, number)
                   .device(world().device));
    }
    insist(lci::post_put_x(to, word, 8, lci::COMP_NULL, 0, memory.rmr(to))
               .device(world().device)
               .remote_comp(rcomp)
               .comp_semantic(lci::comp_semantic_t::network));
    insist(lci::post_am_x(to, word, 8, lci::COMP_NULL, box.rcomp()).device(world().device));
  }
  for (int i = 0; i < world().n; ++i) {
    const lci::status_t got = pop(box.cq());
    EXPECT_STREQ(static_cast<char*>(got.buffer), "da");
    lci::get_allocator()->deallocate(got.buffer);
  }
  barrier();
  EXPECT_TRUE(stays_empty(box.cq()));
  EXPECT_STREQ(memory.bytes().data(), "da") << "the put itself is not dropped";
  for (const lci::rcomp_t number : {rcomp, second, third}) lci::deregister_rcomp(number);
  EXPECT_THROW(lci::deregister_rcomp(rcomp), lci::argument_error);
}

TEST(deregister_memory, by_value__ends_the_registration_and_leaves_the_handle) {
  char bytes[64];
  const auto make = [&] { return lci::register_memory_x(bytes, 64).device(world().device)(); };
  lci::mr_t mr = make();
  lci::deregister_memory(mr);
  EXPECT_FALSE(mr.is_empty());
  EXPECT_EQ(text_thrown<lci::argument_error>([&] { lci::deregister_memory(mr); }).find("nothing"),
            std::string::npos);
  EXPECT_THROW(lci::deregister_memory(&mr), lci::argument_error);
  EXPECT_THROW(lci::get_rmr(mr), lci::argument_error);
  mr = make();
  lci::deregister_memory_x(mr).call();
  mr = make();
  lci::deregister_memory(&mr);  // resets the handle
  EXPECT_TRUE(mr.is_empty());
  // These are pointers.
  EXPECT_THROW(lci::deregister_memory(nullptr), lci::argument_error);
  EXPECT_THROW(lci::deregister_memory(&mr), lci::argument_error);
  for (const lci::mr_t none : {lci::mr_t(), lci::MR_DEVICE, lci::MR_UNKNOWN})
    EXPECT_THROW(lci::deregister_memory(none), lci::argument_error);
}

}  // namespace
}  // namespace interface_test
