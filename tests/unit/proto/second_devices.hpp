// A second device for each rank of a world: what reaches one may be behind what reaches the other.
// Threads: single, as world.hpp.
#pragma once

#include <memory>
#include <vector>

#include "tests/unit/proto/world.hpp"

namespace lci::test {

// A second device of each rank of a world, that ends before the first.
class second_devices {
 public:
  explicit second_devices(proto_world& w) {
    for (auto& node : w.nodes) {
      auto& made = all_.emplace_back();
      made.queues = std::make_unique<proto::device_queues>(
          node->shared, *node->fabric, 1, net::device_config{}, node->pool, std::size_t{1} << 30);
      made.queue = made.queues->engine().lend_queue();
    }
  }
  ~second_devices() {
    for (std::size_t r = 0; r < all_.size(); ++r) end(r);
  }
  void end(std::size_t rank) {
    if (all_[rank].queues == nullptr) return;
    all_[rank].queue.reset();
    all_[rank].queues.reset();
  }
  void step() {
    for (int i = 0; i < 20; ++i)
      for (std::size_t r = 0; r < all_.size(); ++r) step(r);
  }
  void step(std::size_t rank) {
    if (all_[rank].queues != nullptr) all_[rank].queues->progress();
  }
  proto::device_queues& operator[](std::size_t rank) { return *all_[rank].queues; }
  // As node::outgoing() from rank 1 to rank 0, but this way.
  errorcode_t send(proto_world& w, std::vector<std::byte>& data, std::size_t size, tag_t tag,
                   comp_impl_t* comp = nullptr) {
    auto of_first = w[1].outgoing(0, data.data(), size, w[1].engine_rcomp(), tag, comp);
    proto::outgoing out{*all_[1].queue, all_[1].queues->host, w[1].pool};
    out.inject_limit = of_first.inject_limit;
    out.bcopy_limit = of_first.bcopy_limit;
    out.rank = of_first.rank;
    out.buffer = of_first.buffer;
    out.size = of_first.size;
    out.tag = of_first.tag;
    out.rcomp = of_first.rcomp;
    out.user = of_first.user;
    out.extended = of_first.extended;
    return proto::start_message(out);
  }

 private:
  struct one {
    std::unique_ptr<proto::device_queues> queues;
    proto::lent_queue queue;
  };
  std::vector<one> all_;
};

}  // namespace lci::test
