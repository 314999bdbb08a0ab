// A put of one rank into the memory of another that takes a given way.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "backends/shm/bulk_stream.hpp"
#include "tests/unit/shm/pair.hpp"

namespace lci::shm::test {

// Two ranks that may read each other, and a put that takes a given way.
struct by_way {
  explicit by_way(std::size_t size = (std::size_t{2} << 20) + 5) : text(pattern(size, 8)) {
    p.meet();
    may_copy = p.a.net->connections().find(1)->single_copy.load();
  }
  void put(copy_way w, bulk_stream::kind what = bulk_stream::kind::put) {
    net::net_op o;
    o.rank = 1;
    o.buffer = text.data();
    o.size = text.size();
    o.remote = key;
    o.imm = 7;
    o.context = &o;
    ASSERT_EQ(p.a.behind().flow.post(what, o, w, bulk_stream::chosen_by::caller),
              errorcode_t::posted);
  }
  void finish() {
    p.until([&] { return p.a.dev->is_drained(); });
    EXPECT_EQ(p.a.net->connections().chunks().outstanding(), 0u);
  }
  pair p;
  bool may_copy = false;
  std::string text;
  std::string memory = std::string(text.size(), '.');
  net::remote_key key = p.b.expose(memory.data(), memory.size());
};

}  // namespace lci::shm::test
