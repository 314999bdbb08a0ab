#include "backends/cuda/share_records.hpp"

#include <fcntl.h>

#include <thread>
#include <vector>

#include "lci/errors.hpp"
#include "tests/support/sizes.hpp"
#include "tests/unit/cuda/fixture.hpp"

namespace lci::cuda {
namespace {

using lci::test::MIB;

class share_records_test : public cuda_test {
 protected:
  share_records_test() { make(); }
  void make(std::size_t limit = 8, std::size_t descriptors = 4) {
    records_.reset();
    records_ = std::make_unique<share_records>(gpus_, pointers_, arena_, limit, descriptors);
  }
  mem::share_place share(const void* at, std::size_t size = 8) {
    return records_->share(at, size, why_);
  }
  share_record::bytes bytes_at(const mem::share_place& place) {
    return share_record::read(arena_.at(place.record));
  }
  // What a peer makes of it; nothing when the check does not fit.
  std::optional<share_record> record_at(const mem::share_place& place) {
    const share_record::bytes bytes = bytes_at(place);
    if (share_record::check_of(bytes) != place.check) return std::nullopt;
    return share_record::decode(bytes);
  }
  static bool is_open(int fd) { return fcntl(fd, F_GETFD) != -1; }
  void* vmm() { return mock().allocate(mocked::vmm, 2 * MIB); }

  gpu_list gpus_{driver_};
  pointer_cache pointers_{driver_};
  mem::arena arena_{64 * MIB};
  std::unique_ptr<share_records> records_;
  std::string why_;
};

TEST_F(share_records_test, share__device_memory_is_described_for_a_peer) {
  auto* const memory = static_cast<std::byte*>(gpu_memory(MIB, 1));
  const mem::share_place place = share(memory + 100, 1000);
  EXPECT_EQ(why_, "");
  ASSERT_NE(place.record, 0u);
  EXPECT_EQ(place.record % 64, 0u);
  EXPECT_NE(place.check, 0u);
  const auto record = record_at(place);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->ticket.way, share_way::legacy_ipc);
  EXPECT_EQ(record->ticket.base, as_device(memory));
  EXPECT_EQ(record->ticket.size, MIB);
  EXPECT_EQ(record->descriptor, -1);
  EXPECT_STREQ(record->pci.data(), "0000:11:00.0");
}

TEST_F(share_records_test, share__again_exports_nothing) {
  auto* const memory = static_cast<std::byte*>(gpu_memory(MIB));
  void* const mapped = vmm();
  const mem::share_place first = share(memory), second = share(mapped);
  mock().forget_counts();
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(share(memory + i * 64).record, first.record);
    EXPECT_EQ(share(mapped).check, second.check);
  }
  for (const char* call : {"cuIpcGetMemHandle", "cuMemExportToShareableHandle",
                           "cuMemRetainAllocationHandle", "cuMemRelease"})
    EXPECT_EQ(mock().count(call), 0u) << call;
  EXPECT_EQ(records_->size(), 2u);
}

TEST_F(share_records_test, share__vmm_memory_keeps_a_descriptor_open_while_the_record_lives) {
  const mem::share_place place = share(vmm());
  const auto record = record_at(place);
  ASSERT_TRUE(record) << why_;
  EXPECT_EQ(record->ticket.way, share_way::vmm_descriptor);
  EXPECT_TRUE(is_open(record->descriptor));
  records_.reset();
  EXPECT_FALSE(is_open(record->descriptor));
  EXPECT_FALSE(record_at(place)) << "peers find nothing any more";
}

TEST_F(share_records_test, share__same_address_and_other_memory_is_another_record) {
  void* const first = gpu_memory(MIB);
  const mem::share_place old = share(first);
  mock().free(first);
  void* const second = gpu_memory(MIB);
  ASSERT_EQ(first, second) << "the mock gives an address again";
  const mem::share_place fresh = share(second);
  EXPECT_EQ(fresh.record, old.record);  // in its place
  EXPECT_NE(fresh.check, old.check);
  EXPECT_FALSE(record_at(old));
  EXPECT_TRUE(record_at(fresh));
  EXPECT_EQ(records_->size(), 1u);
  // VMM memory changes without another buffer id.
  void* const mapped = vmm();
  const mem::share_place before = share(mapped);
  const int number = record_at(before)->descriptor;
  mock().remap(mapped);
  const mem::share_place after = share(mapped);
  EXPECT_FALSE(record_at(before));
  ASSERT_TRUE(record_at(after));
  EXPECT_FALSE(is_open(number) && record_at(after)->descriptor != number);
}

TEST_F(share_records_test, share__the_least_recently_used_of_too_many_is_written_anew) {
  make(3);
  std::vector<void*> memory;
  std::vector<mem::share_place> places;
  for (int i = 0; i < 3; ++i) {
    memory.push_back(gpu_memory(MIB));
    places.push_back(share(memory.back()));
  }
  share(memory[0]);
  const mem::share_place fourth = share(gpu_memory(MIB));
  EXPECT_EQ(records_->size(), 3u);
  EXPECT_EQ(fourth.record, places[1].record);
  EXPECT_FALSE(record_at(places[1])) << "the check of one that was written anew fits no more";
  EXPECT_TRUE(record_at(places[0]));
  EXPECT_TRUE(record_at(places[2]));
  EXPECT_TRUE(record_at(fourth));
  const mem::share_place again = share(memory[1]);
  EXPECT_EQ(again.record, places[2].record);
  EXPECT_TRUE(record_at(again));
}

TEST_F(share_records_test, hold__others_are_written_anew_first) {
  for (const bool with_descriptors : {false, true}) {
    make(with_descriptors ? 8 : 2, 2);
    const auto share_one = [&] { return share(with_descriptors ? vmm() : gpu_memory(MIB)); };
    const mem::share_place held = share_one();
    records_->hold(held, 1);
    records_->hold(held, 1);
    records_->hold(held, -1);
    mem::share_place other = share_one();
    for (int i = 0; i < 3; ++i) {
      const mem::share_place next = share_one();
      EXPECT_EQ(next.record, other.record) << "its place was needed";
      other = next;
    }
    EXPECT_TRUE(record_at(held));
    records_->hold(other, 1);
    const mem::share_place third = share_one();
    EXPECT_EQ(third.record, held.record) << "all are held, and this one was used before";
    EXPECT_FALSE(record_at(held));
    records_->hold(held, -1);  // it was written anew: another one's
    share_one();
    EXPECT_FALSE(record_at(third)) << "nobody holds it";
    EXPECT_TRUE(record_at(other));
    records_->hold(other, -1);
    records_->hold(other, -1);  // nobody is left
    share_one();
    EXPECT_FALSE(record_at(other));
    EXPECT_EQ(records_->size(), 2u);
  }
}

TEST_F(share_records_test, share__descriptors_are_bounded) {
  make(8, 2);
  const mem::share_place device = share(gpu_memory(MIB));
  const mem::share_place first = share(vmm()), second = share(vmm());
  const int number = record_at(first)->descriptor, kept = record_at(second)->descriptor;
  const mem::share_place third = share(vmm());
  EXPECT_EQ(third.record, first.record);
  EXPECT_FALSE(record_at(first));
  EXPECT_FALSE(is_open(number) && record_at(third)->descriptor != number);
  EXPECT_TRUE(is_open(kept));
  EXPECT_TRUE(record_at(device)) << "has none, and is older";
}

TEST_F(share_records_test, share__freed_vmm_memory_is_let_go_at_the_next_export) {
  void* const freed = vmm();
  const mem::share_place old = share(freed);
  void* const kept = vmm();
  const mem::share_place place = share(kept);
  mock().free(freed);
  share(vmm());
  EXPECT_FALSE(record_at(old));
  EXPECT_TRUE(record_at(place));
  EXPECT_EQ(records_->size(), 2u);
}

TEST_F(share_records_test, share__kinds_that_cannot_be_shared_are_named) {
  for (const auto& [kind, name] :
       {std::pair{mocked::pool, "stream-ordered"}, std::pair{mocked::managed, "managed"},
        std::pair{mocked::pinned, "pinned host"}, std::pair{mocked::vmm_without_export, "VMM"}}) {
    EXPECT_EQ(share(mock().allocate(kind, 2 * MIB)).record, 0u);
    EXPECT_NE(why_.find(name), std::string::npos) << why_;
  }
  int here = 0;
  EXPECT_EQ(share(&here).record, 0u);
  EXPECT_NE(why_.find("host memory"), std::string::npos) << why_;
  EXPECT_EQ(records_->size(), 0u);
}

TEST_F(share_records_test, share__range_beyond_the_allocation_is_refused_also_when_it_is_known) {
  auto* const memory = static_cast<std::byte*>(gpu_memory(MIB));
  EXPECT_NE(share(memory).record, 0u);
  EXPECT_EQ(share(memory + MIB - 4, 8).record, 0u);
  EXPECT_NE(why_.find("beyond its allocation"), std::string::npos) << why_;
  EXPECT_NE(share(memory + MIB - 4, 4).record, 0u);
  EXPECT_EQ(why_, "");
}

TEST_F(share_records_test, share__each_failing_call_is_a_sentence_and_leaves_nothing) {
  void* const memory = gpu_memory(MIB);
  void* const mapped = vmm();
  for (const auto& [at, call] :
       {std::pair{memory, "cuPointerGetAttributes"}, std::pair{memory, "cuIpcGetMemHandle"},
        std::pair{memory, "cuCtxPushCurrent"}, std::pair{mapped, "cuMemRetainAllocationHandle"},
        std::pair{mapped, "cuMemExportToShareableHandle"}}) {
    mock().fail_nth(call, 1, abi::result::invalid_value);
    EXPECT_EQ(share(at).record, 0u);
    EXPECT_EQ(why_.find(std::string(call) + " failed on "), 0u) << why_;
    EXPECT_EQ(records_->size(), 0u);
  }
  EXPECT_NE(share(memory).record, 0u);
  EXPECT_NE(share(mapped).record, 0u);
}

TEST_F(share_records_test, share__an_arena_without_room_is_a_sentence) {
  const mem::memory_file_calls& calls = mem::system_memory_file_calls();
  static bool is_full;
  is_full = false;
  mem::arena small(64 * MIB, {calls.create,
                              [](int fd, off_t size) {
                                if (!is_full)
                                  return mem::system_memory_file_calls().resize(fd, size);
                                errno = ENOSPC;
                                return -1;
                              },
                              calls.map});
  share_records records(gpus_, pointers_, small);
  is_full = true;
  try {
    for (;;) small.allocate(64 * 1024);
  } catch (const std::exception&) {
  }
  try {
    for (;;) small.allocate(64);
  } catch (const std::exception&) {
  }
  void* const memory = gpu_memory(MIB);
  EXPECT_EQ(records.share(memory, 8, why_).record, 0u);
  EXPECT_EQ(why_.find("no room to tell peers about GPU memory: "), 0u) << why_;
  EXPECT_EQ(records.size(), 0u);
}

TEST_F(share_records_test, threads__share_and_write_anew_together) {
  make(3, 2);
  std::vector<void*> memory{gpu_memory(MIB), gpu_memory(MIB), gpu_memory(MIB), vmm(), vmm(), vmm()};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::string why;
      for (std::size_t i = 0; i < 200; ++i) {
        const mem::share_place place = records_->share(memory[(i + t) % memory.size()], 8, why);
        EXPECT_NE(place.record, 0u) << why;
        const share_record::bytes bytes = bytes_at(place);
        // Whole or not at all, whatever the others write meanwhile.
        EXPECT_TRUE(share_record::check_of(bytes) != place.check || share_record::decode(bytes));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(records_->size(), 3u);
}

TEST_F(share_records_test, record__survives_the_arena_and_each_changed_bit_shows) {
  const auto record = record_at(share(vmm()));
  ASSERT_TRUE(record);
  const share_record::bytes good = record->encode();
  const auto back = share_record::decode(good);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->ticket.id, record->ticket.id);
  EXPECT_EQ(back->descriptor, record->descriptor);
  EXPECT_EQ(back->pci, record->pci);
  const std::uint32_t check = share_record::check_of(good);
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    share_record::bytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_NE(share_record::check_of(bad), check) << bit;
  }
  EXPECT_NE(share_record::check_of({}), 0u);
}

TEST_F(share_records_test, record__what_does_not_parse_is_rejected) {
  const auto device = share(gpu_memory(MIB)), mapped = share(vmm());
  auto bad = bytes_at(device);
  EXPECT_TRUE(share_record::decode(bad));
  bad[104] = bad[105] = bad[106] = bad[107] = std::byte{0};  // a descriptor that it has no use for
  EXPECT_FALSE(share_record::decode(bad));
  bad = bytes_at(device);
  bad[108] = std::byte{1};
  EXPECT_FALSE(share_record::decode(bad));
  bad = bytes_at(device);
  bad[0] = std::byte{7};  // the ticket
  EXPECT_FALSE(share_record::decode(bad));
  for (const std::byte top : {std::byte{0xff}, std::byte{0x80}}) {  // none, and a negative number
    bad = bytes_at(mapped);
    for (std::size_t i = 104; i < 107; ++i) bad[i] = std::byte{0xff};
    bad[107] = top;
    EXPECT_FALSE(share_record::decode(bad));
  }
  EXPECT_FALSE(share_record::decode({}));
}

}  // namespace
}  // namespace lci::cuda
