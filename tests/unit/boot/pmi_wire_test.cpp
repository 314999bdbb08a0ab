// PMI-1 and PMI-2 against a process manager that refuses, cuts and lies.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <random>

#include "lci/boot/pmi1.hpp"
#include "lci/boot/pmi2.hpp"
#include "lci/errors.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/support/scoped_env.hpp"
#include "tests/support/seed.hpp"
#include "tests/unit/boot/fake_pmi.hpp"
#include "tests/unit/boot/ranks.hpp"

namespace lci::boot {
namespace {

using std::chrono::milliseconds;
using test::throws_with;

// Both versions, with the words that differ.
struct dialect {
  int version;
  const char *init, *put, *get, *fence;
  std::unique_ptr<text_store> (*make)(int, int, int, milliseconds);
};
constexpr dialect DIALECTS[] = {
    {1, "get_maxes", "put", "get", "barrier_in", &make_pmi1_store},
    {2, "fullinit", "kvs-put", "kvs-get", "kvs-fence", &make_pmi2_store}};

// A manager that answers to one command with something else.
fake_pmi::spoiler instead(std::string which, std::string bytes) {
  return [=](const std::string& command, std::string answer) {
    return command == which ? bytes : answer;
  };
}

class pmi_test : public testing::TestWithParam<dialect> {
 protected:
  static std::unique_ptr<text_store> make(fake_pmi& manager, int rank, int size,
                                          milliseconds limit = milliseconds(20'000)) {
    return GetParam().make(manager.take(rank), rank, size, limit);
  }
};
INSTANTIATE_TEST_SUITE_P(versions, pmi_test, testing::ValuesIn(DIALECTS),
                         [](const auto& p) { return "pmi" + std::to_string(p.param.version); });

std::string bytes_of(int rank, std::size_t length) {
  std::string out(length, '\0');
  for (std::size_t i = 0; i < length; ++i)
    out[i] = static_cast<char>(i * 13 + static_cast<std::size_t>(rank));
  return out;
}

TEST_P(pmi_test, exchange__sheets_of_any_length_and_bytes) {
  fake_pmi manager(3, true, true);
  std::vector<std::unique_ptr<text_board>> boards;
  for (int r = 0; r < 3; ++r) boards.push_back(std::make_unique<text_board>(make(manager, r, 3)));
  const std::size_t lengths[] = {0, 1, 2, 3, 500, 765, 766, 767, 768, 1023, 1024, 100'000};
  for (unsigned round = 0; round < std::size(lengths); ++round) {
    std::vector<std::thread> threads;
    for (int r = 0; r < 3; ++r) {
      threads.emplace_back([&, r] {
        boards[static_cast<std::size_t>(r)]->exchange(round, bytes_of(r, lengths[round]));
      });
    }
    for (std::thread& t : threads) t.join();
    for (int r = 0; r < 3; ++r) EXPECT_EQ(boards[0]->read(r, round), bytes_of(r, lengths[round]));
  }
}

TEST_P(pmi_test, end__says_finalize_and_a_forked_process_does_not) {
  std::unique_ptr<fake_pmi> manager = std::make_unique<fake_pmi>(1, true, true);
  std::unique_ptr<text_store> store = make(*manager, 0, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    store.reset();
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  store->put("k", "still there");  // the manager has not taken the child's end for ours
  store.reset();
  // Its thread has ended once it is gone, and counted one.
  int finalized = 0;
  while ((finalized = manager->finalized()) == 0) ::usleep(1000);
  manager.reset();
  EXPECT_EQ(finalized, 1);
}

// A process manager that is hung up on in the middle of its last answer kills the job.
TEST_P(pmi_test, end__hears_the_last_answer_out) {
  fake_pmi manager(1, true, true);
  std::unique_ptr<text_store> store = make(manager, 0, 1);
  manager.answer_slowly();
  store.reset();
  manager.wait();
  EXPECT_EQ(manager.finalized(), 1);
  EXPECT_EQ(manager.cut(), 0);
}

// Declined, so that the other version can be tried over the same socket.
TEST_P(pmi_test, init__other_version_is_declined_and_the_socket_stays) {
  const bool first = GetParam().version == 1;
  fake_pmi manager(1, !first, first);
  const int fd = manager.take(0);
  EXPECT_THROW(GetParam().make(fd, 0, 1, milliseconds(20'000)), declined_error);
  const auto other = DIALECTS[first ? 1 : 0].make(fd, 0, 1, milliseconds(20'000));
  other->put("k", "v");
  EXPECT_EQ(other->get(0, "k"), "v");
}

TEST_P(pmi_test, init__what_speaks_no_pmi_is_named) {
  for (const char* answer :
       {"HTTP/1.1 400 Bad Request\r\n", "\n", "cmd=\n", "=\n", "cmd=maxes rc=0\n"}) {
    fake_pmi manager(1, true, true, instead("init", answer));
    EXPECT_TRUE(throws_with<backend_error>([&] { make(manager, 0, 1); },
                                           {"pmi", "to init", "does not speak PMI"}))
        << answer;
  }
}

TEST_P(pmi_test, init__no_answer_is_an_error_after_the_limit) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  EXPECT_TRUE(throws_with<backend_error>([&] { GetParam().make(ends[0], 0, 1, milliseconds(50)); },
                                         {"did not answer", "within"}));
  ::close(ends[1]);
}

TEST_P(pmi_test, hang_up__at_every_command_is_named) {
  for (const char* command :
       {"init", GetParam().init, GetParam().put, GetParam().get, GetParam().fence}) {
    fake_pmi manager(1, true, true, instead(command, ""));
    EXPECT_TRUE(throws_with<backend_error>(
        [&] {
          const auto store = make(manager, 0, 1);
          store->put("k", "v");
          store->fence();
          store->get(0, "k");
        },
        {"lost the launcher"}))
        << command;
  }
}

TEST_P(pmi_test, answers__cut_at_every_byte_end_with_an_error) {
  for (const char* command :
       {"init", GetParam().init, GetParam().put, GetParam().get, GetParam().fence}) {
    for (std::size_t cut = 0; cut < 40; ++cut) {
      bool was_cut = false;
      fake_pmi manager(1, true, true, [&](const std::string& word, std::string answer) {
        if (was_cut) return std::string();
        if (word != command || cut >= answer.size()) return answer;
        was_cut = true;
        return answer.substr(0, cut);  // and nothing comes after it
      });
      const auto all = [&] {
        const auto store = make(manager, 0, 1, milliseconds(20));
        store->put("k", "v");
        // A barrier may take any time, so one whose answer was cut is not waited for here.
        if (std::string(command) != GetParam().fence) store->fence();
        return store->get(0, "k");
      };
      try {
        EXPECT_EQ(all(), "v") << command << cut;
      } catch (const backend_error&) {
      }
    }
  }
}

TEST_P(pmi_test, get__refusals_and_lies_are_quoted) {
  fake_pmi manager(1, true, true);
  const auto store = make(manager, 0, 1);
  EXPECT_TRUE(throws_with<backend_error>([&] { store->get(0, "nobody put this"); },
                                         {"refused", "nobody put this"}));
  const auto wrap = [](std::string text) {
    return GetParam().version == 1 ? text : "    " + std::to_string(text.size()) + text;
  };
  const bool first = GetParam().version == 1;
  fake_pmi liar(
      1, true, true,
      instead(GetParam().get, first ? "cmd=put_result rc=0\n" : wrap("cmd=kvs-put-response;")));
  const auto told = make(liar, 0, 1);
  EXPECT_TRUE(
      throws_with<backend_error>([&] { told->get(0, "k"); }, {"answered", "expected cmd="}));
  fake_pmi silent(1, true, true,
                  instead(GetParam().get,
                          first ? "cmd=get_result rc=0\n" : wrap("cmd=kvs-get-response;rc=0;")));
  const auto empty = make(silent, 0, 1);
  EXPECT_TRUE(throws_with<backend_error>([&] { empty->get(0, "key"); }, {"value", "key"}));
}

TEST_P(pmi_test, answers__without_an_end_are_given_up) {
  const std::string endless(pmi::MAX_ANSWER + 5000, 'x');
  fake_pmi manager(1, true, true, instead(GetParam().get, endless));
  const auto store = make(manager, 0, 1);
  EXPECT_TRUE(throws_with<backend_error>([&] { store->get(0, "k"); }, {"the launcher's answer"}));
}

// Answers with bytes changed, lost and added: what was put comes back, or an error. Nothing hangs.
TEST_P(pmi_test, answers__mutated) {
  auto random = test::seeded(41);
  int right = 0, refused = 0;
  for (int i = 0; i < 400; ++i) {
    const unsigned victim = static_cast<unsigned>(random() % 8);
    unsigned count = 0;
    const auto seed = random();
    fake_pmi manager(1, true, true, [&, seed](const std::string& word, std::string answer) {
      // A fence that is never answered is the launcher's right; it is not spoilt here.
      if (count++ != victim || word == GetParam().fence) return answer;
      std::mt19937_64 dice(seed);
      for (auto n = dice() % 3 + 1; n > 0 && !answer.empty(); --n) {
        const std::size_t at = dice() % answer.size();
        if (dice() % 3 == 0)
          answer.erase(at, 1);
        else if (dice() % 2 == 0)
          answer.insert(at, 1, static_cast<char>(dice()));
        else
          answer[at] = static_cast<char>(dice());
      }
      return answer;
    });
    const int fd = manager.take(0);
    try {
      text_board board(GetParam().make(fd, 0, 1, milliseconds(10)));
      board.exchange(0, "what was put");
      if (board.read(0, 0) == "what was put") ++right;
    } catch (const declined_error&) {
      ::close(fd);
      ++refused;
    } catch (const backend_error&) {
      ++refused;
    }
  }
  EXPECT_GT(right, 20);
  EXPECT_GT(refused, 20);
}

TEST(pmi_store_test, pmi2_init__another_rank_or_size_is_named) {
  for (const char* lie :
       {"cmd=fullinit-response;rank=1;size=1;rc=0;", "cmd=fullinit-response;rank=0;size=2;rc=0;"}) {
    const std::string body = lie;
    fake_pmi manager(1, true, true,
                     instead("fullinit", "    " + std::to_string(body.size()) + body));
    EXPECT_TRUE(
        throws_with<backend_error>([&] { make_pmi2_store(manager.take(0), 0, 1); },
                                   {"pmi2: the launcher says rank", "its variables say 0 of 1"}));
  }
}

TEST(pmi_store_test, pmi1_init__values_that_hold_nothing_are_named) {
  for (const char* lie :
       {"cmd=maxes vallen_max=16 rc=0\n", "cmd=maxes vallen_max=x rc=0\n", "cmd=maxes rc=0\n"}) {
    fake_pmi manager(1, true, true, instead("get_maxes", lie));
    EXPECT_TRUE(throws_with<backend_error>([&] { make_pmi1_store(manager.take(0), 0, 1); },
                                           {"pmi1: ", "vallen_max"}));
  }
}

// In a process of its own, which is ended should the command block.
TEST(pmi_wire_test, ask__launcher_that_reads_nothing_is_given_up) {
  const auto results = run_ranks(
      1,
      [](int) {
        int ends[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return std::string();
        const int small = 4096;
        ::setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
        pmi::connection launcher("pmi1", ends[0], milliseconds(100));
        pmi::fields command;
        command.add("cmd", "put");
        command.add("value", std::string(1 << 20, 'x'));
        launcher.ask_line(command, "put_result");
        return std::string("answered");
      },
      20);
  EXPECT_EQ(results[0].text, "pmi1: the launcher takes no command within 0 s");
}

TEST(pmi_wire_test, parse__random_bytes_do_no_harm) {
  auto random = test::seeded(42);
  for (int i = 0; i < 100'000; ++i) {
    std::string bytes;
    for (auto n = random() % 40; n > 0; --n) bytes += "cmd=;01 \n\xff"[random() % 10];
    (void)pmi::parse_line(bytes);
    (void)pmi::parse_message(bytes);
    (void)pmi::parse_length(bytes.substr(0, 6));
    (void)from_letters(bytes);
  }
}

TEST(pmi_wire_test, parse__what_was_written) {
  pmi::fields command;
  command.add("cmd", "kvs-put");
  command.add("value", "a;;b=c;");
  const std::string bytes = pmi::to_message(command);
  ASSERT_EQ(pmi::parse_length(bytes.substr(0, 6)), bytes.size() - 6);
  const auto back = pmi::parse_message(std::string_view(bytes).substr(6));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->find("value"), "a;;b=c;");
  EXPECT_EQ(pmi::parse_length("114   "), 114u);
  for (const char* wrong : {"      ", "-1    ", "1 2   ", "99999", "0x10  ", "999999"})
    EXPECT_FALSE(pmi::parse_length(wrong)) << wrong;
  EXPECT_EQ(pmi::parse_line("cmd=x msg=no such key rc=1")->find("msg"), "no such key");
  EXPECT_FALSE(pmi::parse_line("word cmd=x"));
  EXPECT_FALSE(pmi::parse_message("cmd=x"));
  EXPECT_FALSE(pmi::parse_message("cmd;x=1;"));
}

TEST(text_board_test, letters__there_and_back_and_nothing_else) {
  auto random = test::seeded(43);
  for (std::size_t length = 0; length < 200; ++length) {
    std::string bytes;
    for (std::size_t i = 0; i < length; ++i) bytes += static_cast<char>(random());
    const std::string letters = to_letters(bytes);
    EXPECT_EQ(letters.find_first_of(" ;=\n"), std::string::npos);
    EXPECT_EQ(from_letters(letters), bytes);
  }
  for (const char* wrong : {"A", "AB=", "A B", "AB;", "AAAAA", "AB"})
    EXPECT_FALSE(from_letters(wrong)) << wrong;
}

// A store that is as bad as a test wants it.
struct scripted_store final : text_store {
  const char* name() const noexcept override { return "scripted"; }
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  std::size_t max_value() const noexcept override { return 32; }
  void put(const std::string&, const std::string&) override {}
  void fence() override {}
  std::string get(int, const std::string&) override { return answers.at(next++); }
  std::vector<std::string> answers;
  std::size_t next = 0;
};

TEST(text_board_test, read__sheets_that_do_not_add_up_are_refused) {
  const struct {
    std::vector<std::string> pieces;
    const char* why;
  } cases[] = {{{""}, "start with a length"},
               {{"12"}, "start with a length"},
               {{"-1:AAAA"}, "start with a length"},
               {{"99999999999999999999:A"}, "start with a length"},
               {{"999999999:A"}, "start with a length"},
               {{"8:AAAA", ""}, "piece 1 is empty"},
               {{"4:AAAAA"}, "5 letters instead of 4"},
               {{"8:AAAA", "AAAAA"}, "9 letters instead of 8"},
               {{"4:AA=A"}, "letters that no rank writes"}};
  for (const auto& c : cases) {
    auto store = std::make_unique<scripted_store>();
    store->answers = c.pieces;
    text_board board(std::move(store));
    EXPECT_TRUE(
        throws_with<backend_error>([&] { board.read(0, 7); }, {"fence 7", "damaged", c.why}))
        << c.pieces[0];
  }
}

TEST(pmi_place_test, find__says_what_is_missing_or_wrong) {
  test::scoped_env vars;
  const auto why = [](const std::string& part) {
    pmi::place at{};
    const auto text = pmi::find_place(at);
    return text && text->find(part) != std::string::npos;
  };
  for (const char* name : {"PMI_RANK", "PMI_SIZE", "PMI_FD"}) vars.unset(name);
  EXPECT_TRUE(why("PMI_RANK is not set"));
  vars.set("PMI_RANK", "4");
  EXPECT_TRUE(why("PMI_SIZE is not set"));
  vars.set("PMI_SIZE", "4");
  EXPECT_TRUE(why("PMI_FD is not set"));
  vars.set("PMI_FD", "0x7fffffff");
  EXPECT_TRUE(why("PMI_RANK"));  // of 4
  vars.set("PMI_RANK", "3");
  EXPECT_TRUE(why("PMI_FD"));
  int pipe_ends[2];
  ASSERT_EQ(::pipe2(pipe_ends, O_CLOEXEC), 0);
  vars.set("PMI_FD", std::to_string(pipe_ends[0]));
  EXPECT_TRUE(why("is no socket"));
  for (const int fd : pipe_ends) ::close(fd);
}

}  // namespace
}  // namespace lci::boot
