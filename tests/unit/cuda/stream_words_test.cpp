// Words that streams of a program write and wait for.
#include "backends/cuda/stream_words.hpp"

#include <optional>

#include "lci/errors.hpp"
#include "tests/accelerator/user_stream.hpp"
#include "tests/unit/cuda/accelerator_fixture.hpp"

namespace lci::cuda {
namespace {

using kind = mem::stream_step::kind;

class stream_words_test : public accelerator_test {
 protected:
  explicit stream_words_test(const test::mock_config& config = {}) : accelerator_test(config) {
    use(0);
  }
  void end_of_program() {
    stream_.reset();
    scope_.reset();
    users_.reset();
  }
  // The program goes on with this GPU.
  void use(int ordinal) {
    end_of_program();
    users_.emplace(driver_, ordinal);
    scope_.emplace(users_->call(), users_->context());
    stream_.emplace(LCI_MOCK_CUDA);
    mock().forget_counts();
  }
  void write(mem::stream_word& word, std::uint64_t value) {
    const mem::stream_step step{kind::write, &word, value};
    acc_->enqueue(stream_->get(), std::span(&step, 1));
  }
  void expect_nothing_left(std::size_t depth = 1) const {
    EXPECT_EQ(mock().context_depth(), depth);
    EXPECT_EQ(mock().queued_operations(), 0u);
  }

  std::optional<gpu> users_;
  std::optional<context_scope> scope_;
  std::optional<user_stream> stream_;
};

TEST_F(stream_words_test, write__comes_behind_the_work_before_it) {
  void* const a = gpu_memory(64);
  const auto bytes = pattern(64, 3);
  EXPECT_FALSE(acc_->is_captured(stream_->get()));
  mem::stream_word& word = acc_->take_word();
  stream_->copy(a, bytes.data(), 64);
  write(word, 7);
  EXPECT_EQ(word.load(), 0u);
  mock().advance(1);
  EXPECT_EQ(word.load(), 0u);
  mock().advance(1);
  EXPECT_EQ(word.load(), 7u);
  EXPECT_EQ(read(a, 64), bytes);
  acc_->put_word(word);
  expect_nothing_left();
}

TEST_F(stream_words_test, wait__holds_the_stream_until_the_value_is_there) {
  mem::stream_word& word = acc_->take_word();
  const mem::stream_step steps[] = {{kind::wait_until_equal, &word, 5}, {kind::write, &word, 6}};
  acc_->enqueue(stream_->get(), steps);
  EXPECT_EQ(mock().run_all(), 0u);
  word.store(4);
  EXPECT_EQ(mock().run_all(), 0u);
  word.store(5);
  EXPECT_EQ(mock().run_all(), 2u);
  EXPECT_EQ(word.load(), 6u);
  acc_->put_word(word);
}

TEST_F(stream_words_test, capture__is_seen_and_not_spoilt) {
  for (const auto mode :
       {abi::capture_mode::global, abi::capture_mode::thread_local_, abi::capture_mode::relaxed}) {
    make();  // memory for words has to be made anew
    stream_->begin_capture(mode);
    EXPECT_TRUE(acc_->is_captured(stream_->get()));
    mem::stream_word& word = acc_->take_word();
    write(word, 9);
    void* const graph = stream_->end_capture();
    EXPECT_EQ(mock().run_all(), 0u);
    EXPECT_EQ(word.load(), 0u);
    for (int i = 0; i < 3; ++i) {
      word.store(0);
      stream_->launch(graph);
      mock().run_all();
      EXPECT_EQ(word.load(), 9u);
    }
    stream_->destroy(graph);
    acc_->put_word(word);
  }
}

TEST_F(stream_words_test, streams_of_every_gpu__use_that_gpu_and_no_other) {
  use(1);
  acc_->is_captured(stream_->get());
  mem::stream_word& word = acc_->take_word();
  EXPECT_EQ(mock().count("cuDevicePrimaryCtxRetain"), 1u);
  write(word, 3);
  mock().run_all();
  EXPECT_EQ(word.load(), 3u);
  use(0);
  acc_->is_captured(stream_->get());
  write(word, 4);
  mock().run_all();
  EXPECT_EQ(word.load(), 4u);
  acc_->put_word(word);
}

TEST_F(stream_words_test, default_stream__is_that_of_the_current_context) {
  end_of_program();
  EXPECT_TRUE(test::throws_with<backend_error>([&] { acc_->is_captured(nullptr); },
                                               {"cuStreamGetCtx failed on stream"}));
}

TEST_F(stream_words_test, words__are_used_again_and_new) {
  std::vector<mem::stream_word*> all;
  for (std::size_t i = 0; i < 3 * stream_words::PAGE; ++i) {
    all.push_back(&acc_->take_word());
    EXPECT_EQ(all.back()->load(), 0u);
    all.back()->store(i + 1);
  }
  EXPECT_EQ(mock().count("cuMemHostAlloc"), 3u);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i]->load(), i + 1);
  for (mem::stream_word* each : all) acc_->put_word(*each);
  for (mem::stream_word*& each : all) {
    each = &acc_->take_word();
    EXPECT_EQ(each->load(), 0u);
  }
  EXPECT_EQ(mock().count("cuMemHostAlloc"), 3u);
  for (mem::stream_word* each : all) acc_->put_word(*each);
}

TEST_F(stream_words_test, words_that_were_not_given_back__stay_allocated) {
  acc_->take_word();
  make();
  EXPECT_EQ(mock().leaks().size(), 4u);  // that page, and the test's own stream and context twice
  end_of_program();
  ASSERT_EQ(mock().leaks(), std::vector<std::string>{"pinned host allocations: 1"});
  mock().reset();
}

TEST_F(stream_words_test, each_failing_call__is_a_sentence_and_leaves_nothing) {
  for (const char* call :
       {"cuStreamGetCtx", "cuCtxPushCurrent", "cuCtxGetDevice", "cuStreamIsCapturing"}) {
    mock().fail_nth(call, 1, abi::result::not_permitted);
    EXPECT_TRUE(
        test::throws_with<backend_error>([&] { acc_->is_captured(stream_->get()); },
                                         {"cuda: ", std::string(call) + " failed on stream 0x"}));
    expect_nothing_left();
  }
  acc_->is_captured(stream_->get());
  for (const char* call : {"cuDevicePrimaryCtxRetain", "cuCtxPushCurrent", "cuMemHostAlloc"}) {
    mock().fail_nth(call, 1, abi::result::out_of_memory);
    EXPECT_TRUE(test::throws_with<backend_error>([&] { acc_->take_word(); },
                                                 {std::string(call) + " failed on GPU 0"}));
    expect_nothing_left();
  }
  mem::stream_word& word = acc_->take_word();
  for (const char* call : {"cuStreamGetCtx", "cuCtxPushCurrent", "cuStreamBatchMemOp"}) {
    mock().fail_nth(call, 1, abi::result::launch_failed);
    EXPECT_TRUE(test::throws_with<backend_error>([&] { write(word, 1); },
                                                 {std::string(call) + " failed on stream 0x"}));
    expect_nothing_left();
  }
  mock().fail_nth("cuStreamBatchMemOp", 1, abi::result::not_supported);
  EXPECT_TRUE(test::throws_with<backend_error>([&] { write(word, 1); },
                                               {"cannot write words and wait for them"}));
  acc_->put_word(word);
}

TEST_F(stream_words_test, capture_that_is_invalid__is_a_sentence) {
  stream_->begin_capture(abi::capture_mode::relaxed);
  driver_.call().stream_query(static_cast<abi::stream>(stream_->get()));  // spoils it
  EXPECT_TRUE(test::throws_with<backend_error>([&] { acc_->is_captured(stream_->get()); },
                                               {"capture of stream 0x", "invalidated"}));
  stream_->abandon_capture();
}

TEST_F(stream_words_test, destroyed_context__is_a_sentence) {
  mem::stream_word& word = acc_->take_word();
  mock().destroy_context(0);
  EXPECT_TRUE(test::throws_with<backend_error>([&] { acc_->is_captured(stream_->get()); },
                                               {"cuStreamGetCtx", "context is destroyed"}));
  EXPECT_TRUE(test::throws_with<backend_error>([&] { write(word, 1); }, {"context is destroyed"}));
  acc_->put_word(word);
  end_of_program();
  acc_.reset();
  EXPECT_EQ(mock().leaks(), std::vector<std::string>{"pinned host allocations: 1"});
  mock().reset();  // a lost context takes its memory along
}

TEST_F(stream_words_test, stream_that_does_not_exist__is_a_sentence) {
  int none = 0;
  EXPECT_TRUE(test::throws_with<backend_error>([&] { acc_->is_captured(&none); },
                                               {"cuStreamGetCtx failed on stream 0x"}));
}

test::mock_config without_words(bool old_driver) {
  test::mock_config config;
  config.stream_writes = old_driver;
  if (old_driver)
    config.missing = {"cuStreamWriteValue32", "cuStreamWriteValue64", "cuStreamBatchMemOp"};
  return config;
}

// Whether it is the driver that is too old, or the GPU.
class no_stream_words_test : public stream_words_test, public testing::WithParamInterface<bool> {
 protected:
  no_stream_words_test() : stream_words_test(without_words(GetParam())) {}
};

TEST_P(no_stream_words_test, is_a_sentence) {
  EXPECT_TRUE(test::throws_with<backend_error>(
      [&] { acc_->is_captured(stream_->get()); },
      {"a stream of GPU 0 cannot write words and wait for them", "CUDA 11.7"}));
  expect_nothing_left();
}
INSTANTIATE_TEST_SUITE_P(old, no_stream_words_test, testing::Bool());

}  // namespace
}  // namespace lci::cuda
