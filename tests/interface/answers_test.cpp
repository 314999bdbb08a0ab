// What a post answers, and what its completion object then receives: the table of the interface
// read literally, for every operation, size class, target, completion semantic, and with or without
// a registered local buffer.
#include <tuple>

#include "world.hpp"

namespace interface_test {
namespace {

enum class path { inject, bcopy, eager, rendezvous };
enum class target { self, next };

struct setting {
  size_at size;
  target to;
  lci::comp_semantic_t semantic;
  bool registered;  // pass the region that the local buffer lies in
};

// The first row of the protocol table that fits; a tag of the tests never needs extra bytes.
path path_of(const setting& s, bool may_rendezvous) {
  const std::size_t size = bytes(s.size);
  if (size > world().bcopy && !may_rendezvous) return path::eager;
  if (size > world().bcopy) return path::rendezvous;
  if (size <= world().inject && s.semantic == lci::comp_semantic_t::memory) return path::inject;
  return s.registered ? path::eager : path::bcopy;
}

bool answers_done(const setting& s, path p) {
  return p == path::inject || (p == path::bcopy && s.semantic == lci::comp_semantic_t::memory);
}

std::string describe(const testing::TestParamInfo<setting>& info) {
  const setting& s = info.param;
  return std::string(name_of(s.size)) + (s.to == target::self ? "_self" : "_next") +
         (s.semantic == lci::comp_semantic_t::memory ? "_memory" : "_network") +
         (s.registered ? "_registered" : "");
}

std::vector<setting> all_settings() {
  std::vector<setting> all;
  for (const size_at size : ALL_SIZES)
    for (const target to : {target::self, target::next})
      for (const auto semantic : {lci::comp_semantic_t::memory, lci::comp_semantic_t::network})
        for (const bool registered : {false, true}) all.push_back({size, to, semantic, registered});
  return all;
}

class answers : public testing::TestWithParam<setting> {
 protected:
  void SetUp() override {
    size_ = bytes(GetParam().size);
    to_ = GetParam().to == target::self ? world().rank : world().next();
    from_ = GetParam().to == target::self ? world().rank : world().previous();
    out_ = pattern(size_, static_cast<std::uint64_t>(world().rank));
    in_.resize(size_ + 8, 'g');
    if (GetParam().registered && size_ != 0)
      mr_ = lci::register_memory_x(out_.data(), size_).device(world().device)();
  }
  void TearDown() override {
    barrier();
    if (!mr_.is_empty()) lci::deregister_memory(&mr_);
  }

  // The status of a finished outgoing operation, however it is delivered.
  void expect_outgoing(const lci::status_t& status) {
    EXPECT_EQ(status.rank, to_);
    EXPECT_EQ(status.buffer, out_.data());
    EXPECT_EQ(status.size, size_);
    EXPECT_EQ(status.tag, TAG);
    EXPECT_EQ(status.user_context, &context_);
  }

  // The answer is the table's, and a signal follows if and only if it is posted.
  void expect_answer(const lci::status_t& status, path p, lci::comp_t cq) {
    expect_answer(status, answers_done(GetParam(), p), cq);
  }
  void expect_answer(const lci::status_t& status, bool done, lci::comp_t cq) {
    EXPECT_EQ(status.is_done(), done) << status.error.get_str();
    expect_outgoing(status);
    if (status.is_done()) return;
    const lci::status_t signalled = pop(cq);
    EXPECT_TRUE(signalled.is_done());
    expect_outgoing(signalled);
  }

  void expect_received(const lci::status_t& status, void* context) {
    EXPECT_TRUE(status.is_done());
    EXPECT_EQ(status.rank, from_);
    EXPECT_EQ(status.size, size_);
    EXPECT_EQ(status.tag, TAG);
    EXPECT_EQ(status.buffer, in_.data());
    EXPECT_EQ(status.user_context, context);
    EXPECT_EQ(difference(in_.data(), size_, static_cast<std::uint64_t>(from_)), "");
    EXPECT_EQ(std::string(in_.data() + size_, 8), "gggggggg") << "written past the end";
  }

  template <class Op>
  Op with_options(Op op) {
    op.device(world().device).user_context(&context_).comp_semantic(GetParam().semantic);
    if (!mr_.is_empty()) op.mr(mr_);
    return op;
  }

  static constexpr lci::tag_t TAG = 77;
  std::size_t size_ = 0;
  int to_ = -1;
  int from_ = -1;
  std::vector<char> out_;
  std::vector<char> in_;
  lci::mr_t mr_;
  int context_ = 0;
};

TEST_P(answers, send__to_a_waiting_receive) {
  owned_comp sent(lci::alloc_cq()), received(lci::alloc_cq());
  const lci::status_t recv = lci::post_recv_x(from_, in_.data(), size_, TAG, received)
                                 .device(world().device)
                                 .user_context(this)();
  EXPECT_TRUE(recv.is_posted());
  barrier();
  const lci::status_t send =
      insist(with_options(lci::post_send_x(to_, out_.data(), size_, TAG, sent)));
  expect_answer(send, path_of(GetParam(), true), sent);
  expect_received(pop(received), this);
  EXPECT_TRUE(stays_empty(sent));
  EXPECT_TRUE(stays_empty(received));
}

TEST_P(answers, send__before_the_receive) {
  owned_comp sent(lci::alloc_cq()), received(lci::alloc_cq());
  const lci::status_t send =
      insist(with_options(lci::post_send_x(to_, out_.data(), size_, TAG, sent)));
  barrier();
  linger();
  const lci::status_t recv = lci::post_recv_x(from_, in_.data(), size_, TAG, received)
                                 .device(world().device)
                                 .user_context(this)();
  ASSERT_FALSE(recv.is_retry()) << "a receive never answers retry";
  const path p = path_of(GetParam(), true);
  // A message that was there in full is taken by the post itself.
  if (p == path::rendezvous) {
    EXPECT_TRUE(recv.is_posted());
  } else if (GetParam().to == target::self) {
    EXPECT_TRUE(recv.is_done());
  }
  expect_received(recv.is_done() ? recv : pop(received), this);
  expect_answer(send, p, sent);
  EXPECT_TRUE(stays_empty(sent));
  EXPECT_TRUE(stays_empty(received));
}

TEST_P(answers, am__signals_the_target_once) {
  inbox box;
  owned_comp sent(lci::alloc_cq());
  const lci::status_t am =
      insist(with_options(lci::post_am_x(to_, out_.data(), size_, sent, box.rcomp())).tag(TAG));
  expect_answer(am, path_of(GetParam(), true), sent);
  const lci::status_t arrived = pop(box.cq());
  EXPECT_TRUE(arrived.is_done());
  EXPECT_EQ(arrived.rank, from_);
  EXPECT_EQ(arrived.size, size_);
  EXPECT_EQ(arrived.tag, TAG);
  EXPECT_EQ(arrived.user_context, nullptr);
  ASSERT_NE(arrived.buffer, nullptr);
  EXPECT_EQ(difference(arrived.buffer, size_, static_cast<std::uint64_t>(from_)), "");
  std::free(arrived.buffer);
  EXPECT_TRUE(stays_empty(sent));
  EXPECT_TRUE(stays_empty(box.cq()));
}

TEST_P(answers, put__completes_locally) {
  window memory(size_ + 64);
  owned_comp sent(lci::alloc_cq());
  const lci::status_t put = insist(
      with_options(lci::post_put_x(to_, out_.data(), size_, sent, 32, memory.rmr(to_))).tag(TAG));
  // Done would say that it is in order as well, which where several threads have posted it is not.
  const bool may_be_done = answers_done(GetParam(), path_of(GetParam(), false));
  expect_answer(put, may_be_done && !put.is_posted(), sent);
  wait_until([&] {
    return difference(memory.bytes().data() + 32, size_, static_cast<std::uint64_t>(from_)).empty();
  });
  EXPECT_TRUE(stays_empty(sent));
  EXPECT_EQ(std::string(memory.bytes().data(), 32), std::string(32, '\0')) << "written before";
  EXPECT_EQ(std::string(memory.bytes().data() + 32 + size_, 32), std::string(32, '\0'));
}

TEST_P(answers, get__completes_with_the_data) {
  window memory(size_ + 64);
  const std::vector<char> mine = pattern(size_, static_cast<std::uint64_t>(world().rank) + 100);
  std::copy(mine.begin(), mine.end(), memory.bytes().begin() + 32);
  barrier();
  owned_comp got(lci::alloc_cq());
  const lci::status_t get = insist(
      with_options(lci::post_get_x(to_, out_.data(), size_, got, 32, memory.rmr(to_))).tag(TAG));
  ASSERT_FALSE(get.is_retry());
  if (get.is_posted()) {
    expect_outgoing(pop(got));
  } else {
    expect_outgoing(get);
  }
  EXPECT_EQ(difference(out_.data(), size_, static_cast<std::uint64_t>(to_) + 100), "");
  EXPECT_TRUE(stays_empty(got));
}

// allow_done(false): whatever the path, the object is signalled exactly once and posted is
// answered.
TEST_P(answers, allow_done_false__is_always_signalled) {
  inbox box;
  window memory(size_ + 1);
  owned_comp sent(lci::alloc_cq());
  const lci::status_t am =
      insist(with_options(lci::post_am_x(to_, out_.data(), size_, sent, box.rcomp()))
                 .tag(TAG)
                 .allow_done(false));
  EXPECT_TRUE(am.is_posted()) << am.error.get_str();
  expect_outgoing(pop(sent));
  std::free(pop(box.cq()).buffer);
  const lci::status_t put =
      insist(with_options(lci::post_put_x(to_, out_.data(), size_, sent, 0, memory.rmr(to_)))
                 .tag(TAG)
                 .allow_done(false));
  EXPECT_TRUE(put.is_posted()) << put.error.get_str();
  expect_outgoing(pop(sent));
  EXPECT_TRUE(stays_empty(sent));
}

// allow_posted(false), and the null completion objects that imply it: finished inside the call.
TEST_P(answers, allow_posted_false__finishes_in_the_call) {
  inbox box;
  owned_comp sent(lci::alloc_cq()), received(lci::alloc_cq());
  const auto am = [&](lci::comp_t comp) {
    return with_options(lci::post_am_x(to_, out_.data(), size_, comp, box.rcomp())).tag(TAG);
  };
  const lci::status_t explicit_form = insist(am(sent).allow_posted(false));
  EXPECT_TRUE(explicit_form.is_done()) << explicit_form.error.get_str();
  expect_outgoing(explicit_form);
  EXPECT_TRUE(am(lci::COMP_NULL)().is_done()) << "COMP_NULL never answers anything else";
  EXPECT_TRUE(insist(am(lci::COMP_NULL_RETRY)).is_done());
  for (int i = 0; i < 3; ++i) std::free(pop(box.cq()).buffer);

  // A blocking receive of a message that is under way already.
  const lci::status_t send =
      insist(with_options(lci::post_send_x(to_, out_.data(), size_, TAG, sent)));
  const lci::status_t recv = lci::post_recv_x(from_, in_.data(), size_, TAG, lci::COMP_NULL)
                                 .device(world().device)
                                 .user_context(this)();
  expect_received(recv, this);
  if (send.is_posted()) expect_outgoing(pop(sent));
  EXPECT_TRUE(stays_empty(sent));
  EXPECT_TRUE(stays_empty(received));
}

INSTANTIATE_TEST_SUITE_P(all, answers, testing::ValuesIn(all_settings()), describe);

}  // namespace
}  // namespace interface_test
