#include "lci/net/connected/ends.hpp"

#include <gtest/gtest.h>

namespace lci::net::connected {
namespace {

struct fixed_keys {
  remote_view answer;
  int asked = 0;
  remote_view find(int, remote_key, int) noexcept {
    ++asked;
    return answer;
  }
};

struct failing_queues {
  errorcode_t fail_later(const net_op&, const char* reason) noexcept {
    why_not = reason;
    return errorcode_t::posted;
  }
  static int index() noexcept { return 0; }
  const char* why_not = nullptr;
};

class ends_test : public testing::Test {
 protected:
  ends_test() {
    keys_.answer.what = remote_view::answer::ok;
    keys_.answer.size = 100;
    keys_.answer.at = {4096, 7};
    op_.size = 10;
  }
  errorcode_t find() {
    queues_.why_not = nullptr;
    return find_remote_end(queues_, keys_, op_, at_);
  }

  fixed_keys keys_;
  net_op op_;
  remote_target at_;
  failing_queues queues_;
};

TEST_F(ends_test, said_along__is_not_looked_up) {
  op_.at = {1234, 5};
  EXPECT_EQ(find(), errorcode_t::done);
  EXPECT_EQ(at_.address, 1234u);
  EXPECT_EQ(queues_.why_not, nullptr);
  EXPECT_EQ(keys_.asked, 0);
}

TEST_F(ends_test, looked_up__up_to_its_last_byte) {
  op_.remote_offset = 90;
  EXPECT_EQ(find(), errorcode_t::done);
  EXPECT_EQ(at_.address, 4096u);
  EXPECT_EQ(at_.key, 7u);
  EXPECT_EQ(queues_.why_not, nullptr);
}

TEST_F(ends_test, not_connected__comes_again) {
  keys_.answer = {};
  EXPECT_EQ(find(), errorcode_t::retry_nomem);
  EXPECT_EQ(queues_.why_not, nullptr);
}

TEST_F(ends_test, outside__or_unknown__or_off_the_network__makes_no_sense) {
  for (const auto& [offset, size] :
       {std::pair<std::size_t, std::size_t>{91, 10}, {101, 0}, {~std::size_t{0}, 10}, {0, 101}}) {
    op_.remote_offset = offset;
    op_.size = size;
    find();
    EXPECT_NE(queues_.why_not, nullptr) << offset << ", " << size;
  }
  op_.remote_offset = 0;
  op_.size = 10;
  keys_.answer.at = {};
  find();
  EXPECT_STREQ(queues_.why_not,
               "no network was given that memory; a registration belongs to the net context of the "
               "device that it was made with");
  op_.size = 0;
  find();
  EXPECT_EQ(queues_.why_not, nullptr) << "nothing is written";
  keys_.answer.what = remote_view::answer::unknown_key;
  find();
  EXPECT_NE(queues_.why_not, nullptr);
}

}  // namespace
}  // namespace lci::net::connected
