#include "lci/net/connected/ends.hpp"

#include <gtest/gtest.h>

namespace lci::net::connected {
namespace {

struct fixed_keys {
  remote_view answer;
  int asked = 0;
  remote_view find(int, remote_key) noexcept {
    ++asked;
    return answer;
  }
};

class ends_test : public testing::Test {
 protected:
  ends_test() {
    keys_.answer.what = remote_view::answer::ok;
    keys_.answer.size = 100;
    keys_.answer.at = {4096, 7};
    op_.size = 10;
  }
  errorcode_t find() { return find_remote_end(keys_, op_, at_, why_not_); }

  fixed_keys keys_;
  net_op op_;
  remote_target at_;
  const char* why_not_ = "";
};

TEST_F(ends_test, said_along__is_not_looked_up) {
  op_.at = {1234, 5};
  EXPECT_EQ(find(), errorcode_t::done);
  EXPECT_EQ(at_.address, 1234u);
  EXPECT_EQ(why_not_, nullptr);
  EXPECT_EQ(keys_.asked, 0);
}

TEST_F(ends_test, looked_up__up_to_its_last_byte) {
  op_.remote_offset = 90;
  EXPECT_EQ(find(), errorcode_t::done);
  EXPECT_EQ(at_.address, 4096u);
  EXPECT_EQ(at_.key, 7u);
  EXPECT_EQ(why_not_, nullptr);
}

TEST_F(ends_test, not_connected__comes_again) {
  keys_.answer = {};
  EXPECT_EQ(find(), errorcode_t::retry_nomem);
  EXPECT_EQ(why_not_, nullptr);
}

TEST_F(ends_test, outside__or_unknown__or_off_the_network__makes_no_sense) {
  for (const auto& [offset, size] :
       {std::pair<std::size_t, std::size_t>{91, 10}, {101, 0}, {~std::size_t{0}, 10}, {0, 101}}) {
    op_.remote_offset = offset;
    op_.size = size;
    find();
    EXPECT_NE(why_not_, nullptr) << offset << ", " << size;
  }
  op_.remote_offset = 0;
  op_.size = 10;
  keys_.answer.at = {};
  find();
  EXPECT_STREQ(why_not_, "no network was given that memory");
  op_.size = 0;
  find();
  EXPECT_EQ(why_not_, nullptr) << "nothing is written";
  keys_.answer.what = remote_view::answer::unknown_key;
  find();
  EXPECT_NE(why_not_, nullptr);
}

}  // namespace
}  // namespace lci::net::connected
