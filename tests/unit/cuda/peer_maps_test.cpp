// An owner that publishes records in its arena and a user that maps what they name: two processes,
// and a real descriptor fetched from one to the other.
#include "backends/cuda/peer_maps.hpp"

#include <cerrno>

#include "tests/support/alloc_counter.hpp"
#include "tests/unit/cuda/peer_fixture.hpp"

namespace lci::cuda {
namespace {

class peer_maps_test : public two_processes {};

TEST_F(peer_maps_test, map__each_way_of_sharing_moves_bytes_between_processes) {
  for (const auto kind :
       {test::mock_memory::device, test::mock_memory::vmm, test::mock_memory::vmm_fabric}) {
    mock().reset({.fabric_handles = true});
    const auto bytes = some_bytes(MIB / 2, 5);
    run_both(
        [&](int fd) {
          owner_side here(fd);
          auto* const memory = static_cast<std::byte*>(here.offer(kind, 2 * MIB, 1));
          wait(fd);
          EXPECT_EQ(std::memcmp(mock().contents(memory) + MIB, bytes.data(), bytes.size()), 0);
          const auto wrong = some_bytes(MIB / 2, 6);
          EXPECT_NE(std::memcmp(mock().contents(memory) + MIB, wrong.data(), wrong.size()), 0);
        },
        [&](int fd) {
          user_side here(fd, child_);
          mem::peer_range what = here.receive();
          what.address += MIB;
          what.size = MIB / 2;
          const mem::mapped_memory use = here.map(what);
          ASSERT_TRUE(use) << here.why;
          EXPECT_EQ(here.why, "");
          push(here, use.at(), bytes);
          tell(fd);
        });
    mock().reset();
  }
}

// Two runtimes of one process: CUDA opens no IPC handle where it was made.
TEST_F(peer_maps_test, map__memory_of_our_own_process_is_used_where_it_lies) {
  side owner, user;
  std::string why;
  for (const int gpu : {0, 1}) {
    void* const memory = mock().allocate(test::mock_memory::device, 2 * MIB, gpu);
    const mem::share_place place = owner.acc.share(memory, 2 * MIB, why);
    ASSERT_NE(place.record, 0u) << why;
    const mem::peer_range what{
        PEER,   getpid(), owner.arena.at(place.record), place.check, as_device(memory) + MIB,
        MIB / 2};
    const mem::mapped_memory use = user.acc.map(what, 0, why);
    EXPECT_EQ(use.at(), static_cast<std::byte*>(memory) + MIB) << why;
    EXPECT_FALSE(use.is_on_same_gpu()) << "no other process takes turns with us";
    mock().free(memory);
    EXPECT_FALSE(user.acc.map(what, 0, why)) << "what is there now was not meant";
    EXPECT_NE(why.find("was freed"), std::string::npos) << why;
  }
  EXPECT_EQ(mock().count("cuIpcOpenMemHandle"), 0u);
  EXPECT_EQ(mock().count("cuCtxEnablePeerAccess"), 1u);
}

TEST_F(peer_maps_test, map__again_is_a_look_up_and_stays_while_in_use) {
  run_both(&offer_one_of_each, [&](int fd) {
    user_side here(fd, child_);
    for (int i = 0; i < 2; ++i) {
      const mem::peer_range what = here.receive();
      mem::mapped_memory first = here.map(what), again = here.map(what);
      ASSERT_TRUE(first && again) << here.why;
      EXPECT_EQ(first.at(), again.at());
      here.acc.forget(PEER);
      EXPECT_NE(mock().contents(again.at()), nullptr) << "a copy may be under way";
      first = {};
      again = {};
    }
    EXPECT_EQ(mock().count("cuIpcOpenMemHandle"), 1u);
    EXPECT_EQ(mock().count("cuIpcCloseMemHandle"), 0u) << "it would wait for the GPU";
    here.acc.tidy();
    EXPECT_EQ(mock().count("cuIpcCloseMemHandle"), 1u);
    EXPECT_EQ(mock().count("cuMemImportFromShareableHandle"), 1u);
    EXPECT_EQ(mock().count("cuMemUnmap"), 1u);
    tell(fd);
  });
}

TEST_F(peer_maps_test, map__again_allocates_nothing) {
  if (!test::has_alloc_counter()) GTEST_SKIP() << test::ALLOC_COUNTER_MISSING;
  run_both(&offer_one_of_each, [&](int fd) {
    user_side here(fd, child_);
    const mem::peer_range what = here.receive();
    const mem::mapped_memory first = here.map(what);
    const test::alloc_counter counter;
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(here.map(what));
    EXPECT_EQ(counter.calls(), 0u);
    tell(fd);
  });
}

TEST_F(peer_maps_test, map__each_gpu_of_ours_has_its_own) {
  run_both(&offer_one_of_each, [&](int fd) {
    user_side here(fd, child_);
    here.receive();
    const mem::peer_range mapped = here.receive();
    const mem::mapped_memory a = here.map(mapped, 0), b = here.map(mapped, 1);
    ASSERT_TRUE(a && b) << here.why;
    EXPECT_NE(a.at(), b.at());
    EXPECT_FALSE(here.map(mapped, 2));
    EXPECT_TRUE(here.says("there is no GPU 2")) << here.why;
    EXPECT_FALSE(here.map(mapped, -1));
    tell(fd);
  });
}

TEST_F(peer_maps_test, map__what_does_not_fit_the_record_is_refused) {
  run_both(&offer_one_of_each, [&](int fd) {
    user_side here(fd, child_);
    const mem::peer_range good = here.receive();
    mem::peer_range bad = good;
    ++bad.check;
    EXPECT_FALSE(here.map(bad));
    EXPECT_TRUE(here.says("rank 3 was written anew")) << here.why;
    for (const auto& [ahead, size] :
         {std::pair{std::int64_t{-1}, 2 * MIB}, std::pair{std::int64_t{1}, 2 * MIB},
          std::pair{std::int64_t{0}, 2 * MIB + 1},
          std::pair{std::int64_t{8}, ~std::size_t{0} - 4}}) {
      bad = good;
      bad.address += static_cast<std::uint64_t>(ahead);
      bad.size = size;
      EXPECT_FALSE(here.map(bad));
      EXPECT_TRUE(here.says("is not about the range")) << here.why;
    }
    bad = good;
    bad.record = nullptr;
    EXPECT_FALSE(here.map(bad));
    EXPECT_TRUE(here.says("names no record")) << here.why;
    bad.record = good.record + 4;
    EXPECT_FALSE(here.map(bad));
    EXPECT_EQ(mock().count("cuIpcOpenMemHandle"), 0u);
    EXPECT_TRUE(here.map(good));
    bad = here.forge(good, [](share_record& r) { r.descriptor = 1; });
    EXPECT_FALSE(here.map(bad));
    EXPECT_TRUE(here.says("does not parse")) << here.why;
    tell(fd);
  });
}

TEST_F(peer_maps_test, map__a_size_that_grows_later_is_not_believed) {
  run_both(&offer_one_of_each, [&](int fd) {
    user_side here(fd, child_);
    mem::peer_range what = here.receive();
    EXPECT_TRUE(here.map(what));
    what = here.forge(what, [](share_record& r) { r.ticket.size *= 2; });
    what.address += 2 * MIB;
    EXPECT_FALSE(here.map(what));
    EXPECT_TRUE(here.says("has only 2097152 bytes")) << here.why;
    tell(fd);
  });
}

TEST_F(peer_maps_test, map__descriptor_that_cannot_be_fetched_is_a_sentence) {
  run_both(&offer_one_of_each, [&](int fd) {
    accelerator_options no_open, no_fetch;
    no_open.calls.open_process = [](int) {
      errno = ENOSYS;
      return -1;
    };
    static int fetches;
    fetches = 0;
    no_fetch.calls.fetch = [](int, int) {
      ++fetches;
      errno = EPERM;
      return -1;
    };
    user_side here(fd, child_);
    here.receive();
    mem::peer_range what = here.receive();
    std::string why;
    accelerator first(here.d, here.pointers, here.arena, no_open);
    EXPECT_FALSE(first.map(what, 0, why));
    EXPECT_NE(why.find("pidfd_open: Function not implemented [38]"), std::string::npos) << why;
    accelerator second(here.d, here.pointers, here.arena, no_fetch);
    second.hold(1);  // an endpoint for kernels is alive
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(second.map(what, 0, why));
    EXPECT_NE(why.find("pidfd_getfd: Operation not permitted [1]"), std::string::npos) << why;
    EXPECT_EQ(fetches, 1) << "not for each message";
    second.hold(-1);
    second.forget(PEER);
    EXPECT_FALSE(second.map(what, 0, why));
    EXPECT_EQ(fetches, 2);
    what.pid = 0;
    EXPECT_FALSE(here.map(what));
    EXPECT_TRUE(here.says("not visible from here")) << here.why;
    what.pid = child_;
    EXPECT_TRUE(here.map(what)) << "a process that is seen later: " << here.why;
    // A number that the owner does not have open.
    what = here.forge(what, [](share_record& r) {
      r.descriptor = 999;
      ++r.ticket.id.block_id;
    });
    EXPECT_FALSE(here.map(what));
    EXPECT_TRUE(here.says("pidfd_getfd: Bad file descriptor")) << here.why;
    tell(fd);
  });
}

TEST_F(peer_maps_test, map__refusals_are_not_remembered_without_end) {
  run_both(&offer_one_of_each, [&](int fd) {
    static int fetches;
    fetches = 0;
    accelerator_options options;
    options.calls.fetch = [](int, int) {
      ++fetches;
      errno = EPERM;
      return -1;
    };
    user_side here(fd, child_, options);
    here.receive();
    const mem::peer_range first = here.receive();
    const auto refused_for = [&](std::uint64_t number) {
      mem::peer_range what = first;
      what.address += 2 * MIB * number;
      what = here.forge(what, [&](share_record& r) { r.ticket.base = what.address; });
      return !here.map(what);
    };
    const int many = static_cast<int>(peer_maps::REFUSALS);
    for (int i = 0; i < many; ++i) EXPECT_TRUE(refused_for(static_cast<std::uint64_t>(i)));
    EXPECT_EQ(fetches, many);
    EXPECT_TRUE(refused_for(0));
    EXPECT_EQ(fetches, many) << "known";
    EXPECT_TRUE(refused_for(peer_maps::REFUSALS));
    EXPECT_TRUE(refused_for(0));
    EXPECT_EQ(fetches, many + 2) << "all were forgotten when there were too many";
    tell(fd);
  });
}

TEST_F(peer_maps_test, map__what_the_driver_refuses_is_asked_once) {
  run_both(&offer_one_of_each, [&](int fd) {
    user_side here(fd, child_);
    const mem::peer_range what = here.receive();
    mock().fail_nth("cuIpcOpenMemHandle", 1, abi::result::invalid_value);
    for (int i = 0; i < 3; ++i) {
      EXPECT_FALSE(here.map(what));
      EXPECT_TRUE(here.says("cuIpcOpenMemHandle failed on memory of rank 3")) << here.why;
    }
    EXPECT_EQ(mock().count("cuIpcOpenMemHandle"), 1u);
    EXPECT_TRUE(here.map(what, 1)) << "another GPU of ours is another question: " << here.why;
    // Other memory at that address is another question too, and so is another rank.
    EXPECT_FALSE(here.map(what));
    const auto later = here.forge(what, [](share_record& r) { ++r.ticket.id.buffer_id; });
    EXPECT_TRUE(here.map(later)) << here.why;
    tell(fd);
  });
}

TEST_F(peer_maps_test, map__want_of_descriptors_or_memory_passes) {
  run_both(&offer_one_of_each, [&](int fd) {
    static int error, opens, fetches;
    accelerator_options options;
    options.calls.open_process = [](int pid) {
      errno = error;
      return ++opens == 1 ? -1 : system_descriptor_calls().open_process(pid);
    };
    options.calls.fetch = [](int process, int number) {
      errno = error;
      return ++fetches == 1 ? -1 : system_descriptor_calls().fetch(process, number);
    };
    user_side here(fd, child_);
    const mem::peer_range device = here.receive(), vmm = here.receive();
    for (const int code : {EMFILE, ENFILE, ENOMEM}) {
      error = code;
      opens = fetches = 0;
      accelerator acc(here.d, here.pointers, here.arena, options);
      std::string why;
      EXPECT_FALSE(acc.map(vmm, 0, why));
      EXPECT_NE(why.find("pidfd_open: "), std::string::npos) << why;
      EXPECT_FALSE(acc.map(vmm, 0, why));
      EXPECT_NE(why.find("pidfd_getfd: "), std::string::npos) << why;
      EXPECT_TRUE(acc.map(vmm, 0, why)) << why;
    }
    // Of the driver: with the caches of two GPUs, the second attempt has a descriptor of its own.
    EXPECT_TRUE(here.map(device, 1)) << here.why;
    for (const char* call : {"cuMemImportFromShareableHandle", "cuMemAddressReserve", "cuMemMap"}) {
      mock().fail_nth(call, 1, abi::result::out_of_memory);
      EXPECT_FALSE(here.map(vmm)) << call;
      EXPECT_TRUE(here.says(std::string(call) + " failed")) << here.why;
    }
    EXPECT_TRUE(here.map(vmm)) << here.why;
    mock().fail_nth("cuIpcOpenMemHandle", 1, abi::result::out_of_memory);
    here.map(device);  // if another cache makes way, it is tried again
    EXPECT_TRUE(here.map(device)) << here.why;
    tell(fd);
  });
}

TEST_F(peer_maps_test, has_atomics__of_the_owner_and_where_the_driver_says_so) {
  for (const bool has : {true, false}) {
    mock().reset({.peer_atomics = has});
    run_both(
        [](int fd) {
          owner_side here(fd);
          here.offer(test::mock_memory::device, 2 * MIB, 1);
          wait(fd);
        },
        [&](int fd) {
          user_side here(fd, child_);
          mem::peer_range what = here.receive();
          EXPECT_EQ(here.acc.has_peer_atomics(what, 0), has);
          EXPECT_TRUE(here.acc.has_peer_atomics(what, 1)) << "its own GPU";
          what = here.forge(what, [](share_record& r) { r.pci[5] = 'f'; });
          EXPECT_FALSE(here.acc.has_peer_atomics(what, 0)) << "a GPU that is not visible here";
          tell(fd);
        });
  }
}

TEST_F(peer_maps_test, map__gpus_without_peer_access_are_named) {
  mock().reset({.peer_access = false});
  run_both(
      [](int fd) {
        owner_side here(fd);
        here.offer(test::mock_memory::device, 2 * MIB, 1);
        wait(fd);
      },
      [&](int fd) {
        user_side here(fd, child_);
        mem::peer_range what = here.receive();
        mock().forget_counts();
        for (int i = 0; i < 2; ++i) {
          EXPECT_FALSE(here.map(what, 0));
          EXPECT_TRUE(here.says("GPU 0 and GPU 1 have no peer access")) << here.why;
        }
        EXPECT_EQ(mock().count("cuDeviceCanAccessPeer"), 1u);
        EXPECT_EQ(mock().count("cuIpcOpenMemHandle"), 0u);
        EXPECT_EQ(mock().count("cuDevicePrimaryCtxRetain"), 0u) << "no context only to ask";
        EXPECT_TRUE(here.map(what, 1)) << "its own GPU: " << here.why;
        // A GPU that is not visible here: nobody knows before it is tried.
        what = here.forge(what, [](share_record& r) {
          r.pci[5] = 'f';
          ++r.ticket.id.buffer_id;
        });
        EXPECT_TRUE(here.map(what, 0)) << here.why;
        tell(fd);
      });
}

TEST_F(peer_maps_test, forget__of_a_rank_that_is_unknown_is_harmless) {
  run_both(&offer_one_of_each, [&](int fd) {
    user_side here(fd, child_);
    const mem::peer_range what = here.receive();
    here.acc.forget(PEER);
    EXPECT_TRUE(here.map(what));
    here.acc.forget(PEER + 1);
    EXPECT_EQ(mock().count("cuIpcCloseMemHandle"), 0u);
    here.acc.forget(PEER);
    here.acc.tidy();
    EXPECT_EQ(mock().count("cuIpcCloseMemHandle"), 1u);
    tell(fd);
  });
}

}  // namespace
}  // namespace lci::cuda
