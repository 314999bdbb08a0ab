// What a device has on the cards beside the first, and the operations that go over them in pieces.
// Owned by device_queues. Threads: as rail_queues says. Always true: what fails on one card is the
// end of the whole connection.
#pragma once

#include <memory>
#include <vector>

#include "backends/ibv/event_queue.hpp"
#include "backends/ibv/multi_rail.hpp"
#include "experimental/ibv/multi_rail/pieces.hpp"
#include "experimental/ibv/multi_rail/side.hpp"
#include "experimental/ibv/multi_rail/split.hpp"
#include "lci/base/spinlock.hpp"

namespace lci::ibv {

class side_queues final : public rail_queues {
 public:
  // Throws backend_error.
  explicit side_queues(event_queue& of);
  ~side_queues() override;

  void make_connection(int rank) override;
  void describe(int rank, hello& out) const override;
  void accept(connection& on, const hello& said) override;
  bool post(const rail_op& one, errorcode_t& answer) noexcept override;
  void poll(net::sink& to, bool is_first_dry) noexcept override;
  void serve(net::sink& to) noexcept override;
  void finish(net::sink& to, const send_record& record, const char* error) noexcept override;
  void stop(const connection& on) noexcept override;
  void drop_posted(net::sink& to, const connection& on, const char* reason) noexcept override;
  void lose_all(net::sink& to, const char* reason) noexcept override;
  void forget_users() noexcept override {
    splits_.for_each_left([](split& s) { s.context = nullptr; });
  }
  bool is_beyond_hope(int rank, std::uint64_t now) noexcept override;

 private:
  // use(connection) for those to that rank.
  template <class Use>
  void for_each_to(int rank, Use&& use) const;
  pieces cut_for(const rail_op& one, regions::by_card& local) const noexcept;
  errorcode_t start(const split& what) noexcept;
  static errorcode_t post_part(split& s) noexcept;
  void await_room(split& s) noexcept;
  split* take_waiting() noexcept;
  void go_on(net::sink& to, split& s) noexcept;
  void part_done(net::sink& to, split& s, const char* error) noexcept;
  void conclude(net::sink& to, split& s) noexcept;
  void finish_split(net::sink& to, split& s, const char* error) noexcept;
  void side_event(net::sink& to, const side& from, const ibv_wc& what) noexcept;
  void lose_side(net::sink& to, const side& lost, const char* reason) noexcept;

  event_queue& main_;
  cards& cards_;
  regions& memory_;
  const std::size_t ranks_;
  const std::size_t least_;  // bytes from which an operation is cut
  std::vector<std::unique_ptr<side>> sides_;
  splits splits_;
  base::spinlock waiting_lock_;  // guards the next
  split* waiting_ = nullptr;     // for room, or to be told
};

}  // namespace lci::ibv
