// What the public functions owe a network that needs keys: a registered region is published under
// its name, and the posts of the raw layer register what their caller has not. Seen by a fabric
// that passes everything on to the real one and keeps the books.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "lci.hpp"
#include "lci/runtime/device.hpp"
#include "lci/runtime/runtime.hpp"

namespace {

namespace net = lci::net;

class bookkeeping_fabric final : public net::fabric {
 public:
  explicit bookkeeping_fabric(std::unique_ptr<net::fabric> real)
      : caps_(real->caps()), real_(std::move(real)) {
    caps_.needs_keys = true;
  }
  const net::capabilities& caps() const noexcept override { return caps_; }
  std::string_view name() const noexcept override { return real_->name(); }
  std::string address() const override { return real_->address(); }
  std::unique_ptr<net::device> make_device(int index, net::device_config& config) override {
    return real_->make_device(index, config);
  }
  void connect(int rank) noexcept override { real_->connect(rank); }
  net::remote_view check_remote(int rank, net::remote_key key, int device) noexcept override {
    return real_->check_remote(rank, key, device);
  }
  std::uint64_t register_region(void* address, std::size_t, lci::mem::mem_kind,
                                std::string&) override {
    live[++last] = address;
    return last;
  }
  void deregister_region(std::uint64_t key) noexcept override { EXPECT_EQ(live.erase(key), 1u); }
  void publish(net::remote_key name, std::uint64_t key) noexcept override {
    EXPECT_EQ(live.count(key), 1u);
    published[name.slot] = key;
  }
  void leave() noexcept override { real_->leave(); }

  std::map<std::uint64_t, void*> live;               // by key
  std::map<std::uint32_t, std::uint64_t> published;  // keys by slot
  std::uint64_t last = 0;

 private:
  net::capabilities caps_;
  std::unique_ptr<net::fabric> real_;
};

class keys : public testing::Test {
 protected:
  keys() {
    lci::g_runtime_init();
    auto& context = *lci::get_default_net_context().p_impl;
    auto made = std::make_unique<bookkeeping_fabric>(std::move(context.fabric));
    books = made.get();
    context.fabric = std::move(made);
  }
  ~keys() override { lci::g_runtime_fina(); }
  bookkeeping_fabric* books = nullptr;
  std::vector<char> buffer = std::vector<char>(1000, 'x');
};

}  // namespace

TEST_F(keys, register_memory__publishes_its_key_until_it_is_deregistered) {
  lci::mr_t mr = lci::register_memory(buffer.data(), buffer.size());
  ASSERT_EQ(books->live.size(), 1u);
  const auto slot = static_cast<std::uint32_t>(lci::get_rmr(mr).opaque_rkey);
  ASSERT_EQ(books->published.count(slot), 1u);
  EXPECT_EQ(books->live[books->published[slot]], buffer.data());
  lci::deregister_memory(&mr);
  EXPECT_TRUE(books->live.empty());
}

TEST_F(keys, raw_posts__register_what_has_no_mr_and_give_it_back) {
  lci::mr_t mr = lci::register_memory(buffer.data(), buffer.size());
  const lci::rmr_t rmr = lci::get_rmr(mr);
  std::vector<char> local(1000, 'y');
  const auto poll = [] {
    lci::net_status_t status;
    while (lci::net_poll_cq_x(1, &status)() == 0) {
    }
    return status.opcode;
  };
  while (lci::net_post_put_x(0, local.data(), local.size(), {}, 0, rmr)().is_retry()) {
  }
  EXPECT_EQ(books->last, 2u) << "the buffer was not registered";
  EXPECT_EQ(poll(), lci::net_opcode_t::WRITE);
  EXPECT_EQ(buffer, local);
  EXPECT_EQ(books->live.size(), 1u);
  while (lci::net_post_puts_x(0, local.data(), 8, 0, rmr)().is_retry()) {
  }
  while (lci::net_post_put_x(0, buffer.data(), 8, mr, 8, rmr)().is_retry()) {
  }
  EXPECT_EQ(books->last, 2u) << "a copy in a packet or a buffer with an mr was registered";
  poll();
  poll();
  lci::deregister_memory(&mr);
  EXPECT_TRUE(books->live.empty());
}
