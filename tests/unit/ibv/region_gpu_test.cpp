// Memory of GPUs, registered by a dma-buf or by its address: what the card is asked, and what is
// left when it or the accelerator refuses.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "backends/ibv/region.hpp"
#include "tests/support/leak_guard.hpp"
#include "tests/unit/ibv/domains.hpp"
#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {
namespace {

constexpr std::uint64_t EXPORT_PAGE = 4096;
bool exports = true, gives_pointers = true;

// A GPU whose memory is all addresses from 1 TiB on.
mem::network_export export_it(const void* address, std::size_t size, bool over_pcie) {
  mem::network_export out;
  if (over_pcie || !exports) {
    out.why_not = "the GPU says no";
    out.error = 801;
    return out;
  }
  const auto where = reinterpret_cast<std::uintptr_t>(address);
  out.base = where / EXPORT_PAGE * EXPORT_PAGE;
  out.offset = where % EXPORT_PAGE;
  out.size = (out.offset + size + EXPORT_PAGE - 1) / EXPORT_PAGE * EXPORT_PAGE;
  out.is_synchronous = true;
  out.fd.reset(memfd_create("gpu", MFD_CLOEXEC));
  if (ftruncate(out.fd.get(), static_cast<off_t>(out.size)) != 0) out.why_not = "no memory";
  return out;
}

mem::network_pointer ready_it(const void*) {
  if (!gives_pointers) return {"the GPU gives no pointers", 1, false, false};
  return {"", 0, false, true};
}

extern const mem::memory_domain FAKE_GPU;
mem::memory_place find_it(const void* address) noexcept {
  mem::memory_place out;
  if (reinterpret_cast<std::uintptr_t>(address) >> 40 != 1) return out;
  out.kind = mem::mem_kind::device;
  out.device = 0;
  out.domain = &FAKE_GPU;
  return out;
}
const mem::memory_domain FAKE_GPU{"fake",
                                  "",
                                  nullptr,
                                  &find_it,
                                  [](const void*) { return std::string("memory of GPU 0"); },
                                  [](const void*) { return std::string(); },
                                  nullptr,
                                  nullptr,
                                  nullptr,
                                  &export_it,
                                  &ready_it,
                                  nullptr};

class gpu_region_test : public on_a_card {
 protected:
  gpu_region_test() {
    test::domains() = {&FAKE_GPU, 1};
    exports = gives_pointers = true;
  }
  ~gpu_region_test() override { test::domains() = {}; }
  static void* device_memory(std::size_t offset) {
    return reinterpret_cast<void*>((std::uintptr_t{1} << 40) + offset);
  }
  std::uint64_t add(std::size_t offset, std::size_t size) {
    why_not_.clear();
    return at(0).register_region(device_memory(offset), size, mem::mem_kind::device, why_not_);
  }
  std::string why_not_;
};

TEST_F(gpu_region_test, dma_buf__at_any_place_in_a_page_and_every_descriptor_is_closed) {
  auto g = open(1);
  const auto descriptors = test::open_descriptors();
  std::vector<std::uint64_t> keys;
  for (const std::size_t offset : {0u, 1u, 256u, 4095u, 4096u, 3u * 4096 + 512}) {
    for (const std::size_t size : {1u, 4096u, 100000u}) {
      const std::uint64_t key = add(offset, size);
      ASSERT_NE(key, 0u) << offset << ", " << size << ": " << why_not_;
      const ibv_mr& mr = *reinterpret_cast<const registration*>(key)->on[0];
      EXPECT_EQ(mr.length, size);
      keys.push_back(key);
    }
  }
  EXPECT_EQ(card().count("ibv_reg_dmabuf_mr"), keys.size());
  EXPECT_EQ(test::open_descriptors(), descriptors);
  for (const std::uint64_t key : keys) at(0).deregister_region(key);
}

TEST_F(gpu_region_test, dma_buf_refused_by_the_card__goes_by_the_address) {
  auto g = open(1);
  const auto descriptors = test::open_descriptors();
  for (const int error : {EINVAL, ENOMEM, EOPNOTSUPP}) {
    card().fail_nth("ibv_reg_dmabuf_mr", 1, error);
    const std::uint64_t key = add(0, 5000);
    EXPECT_NE(key, 0u) << why_not_;
    at(0).deregister_region(key);
  }
  EXPECT_EQ(test::open_descriptors(), descriptors);
  const std::size_t asked = card().count("ibv_reg_dmabuf_mr");
  at(0).deregister_region(add(0, 5000));
  EXPECT_EQ(card().count("ibv_reg_dmabuf_mr"), asked) << "EOPNOTSUPP holds for good";
}

TEST_F(gpu_region_test, every_way_refused__is_no_error_and_says_all_reasons) {
  auto g = open(1);
  const std::size_t before = card().live().mrs;
  for (const bool by_card : {false, true}) {
    exports = gives_pointers = by_card;
    card().reset_failures();
    card().fail_nth("ibv_reg_dmabuf_mr", 1, EINVAL);
    card().fail_nth("ibv_reg_mr", 1, EFAULT);
    EXPECT_EQ(add(0, 5000), 0u);
    EXPECT_NE(why_not_.find(by_card ? "ibv_reg_dmabuf_mr on fake_0:1" : "the GPU says no"),
              std::string::npos)
        << why_not_;
    EXPECT_NE(why_not_.find(by_card ? "ibv_reg_mr on fake_0:1" : "the GPU gives no pointers"),
              std::string::npos)
        << why_not_;
  }
  EXPECT_EQ(card().live().mrs, before);
}

}  // namespace
}  // namespace lci::ibv
